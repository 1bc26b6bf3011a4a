#include "dtune/tuner/learnt_part.h"

#include <algorithm>

#include "dtune/surrogate/shipped.h"
#include "dtune/tuner/cube_map.h"

namespace dtune {
namespace {

bool has_use_for_prior(const Recipe& recipe) {
  const std::string& sampler = recipe.sampler.kind;
  if (sampler == "plain-gp") return false;
  return sampler == "convlstm" || sampler == "learnt-gp" ||
         recipe.scheduler.kind == "freeze-thaw";
}

bool is_convolutional(const Recipe& recipe) {
  const std::vector<LayerSpec>& layers = recipe.model.layers;
  return !recipe.command &&
         (layers.empty() ||
          std::any_of(layers.begin(), layers.end(), [](const LayerSpec& layer) {
            return layer.kind == LayerKind::conv ||
                   layer.kind == LayerKind::residual;
          }));
}

}  // namespace

std::string why_unlearnt(const Recipe& recipe) {
  if (!has_use_for_prior(recipe)) return "";
  const std::vector<Parameter>& parameters = recipe.space.parameters();
  if (std::none_of(parameters.begin(), parameters.end(),
                   [](const Parameter& p) {
                     return cube_role(p) != ParameterRole::none;
                   })) {
    return recipe.command ? "no parameter of the command has a role (space: "
                            "role: learning_rate, l2 or dropout)"
                          : "the space has neither learning rate nor L2 nor "
                            "dropout";
  }
  return "";
}

const LearntPrior& shipped_prior_for(const Recipe& recipe) {
  return is_convolutional(recipe) ? shipped_cnn_prior() : shipped_prior();
}

const ConvLstm& shipped_network_for(const Recipe& recipe) {
  return is_convolutional(recipe) ? shipped_cnn_network() : shipped_network();
}

bool shares_shipped_weights(const Recipe& a, const Recipe& b) {
  return is_convolutional(a) == is_convolutional(b);
}

bool shipped_network_has_seen(const Recipe& recipe, const std::string& task) {
  // The shipped networks were trained on the tasks of the shipped priors.
  const std::vector<std::string>& seen = shipped_prior_for(recipe).tasks();
  return std::find(seen.begin(), seen.end(), task) != seen.end();
}

}  // namespace dtune
