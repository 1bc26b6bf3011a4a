#include "dtune/tuner/learnt_part.h"

#include <algorithm>

#include <fmt/format.h>

#include "dtune/tuner/cube_map.h"

namespace dtune {
namespace {

bool has_use_for_prior(const Recipe& recipe) {
  const std::string& sampler = recipe.sampler.kind;
  if (sampler == "plain-gp") return false;
  return sampler == "convlstm" || sampler == "learnt-gp" ||
         recipe.scheduler.kind == "freeze-thaw";
}

bool is_sgd(const Value& value) {
  return to_string(value) == to_string(OptimizerKind::sgd);
}

}  // namespace

std::string why_unlearnt(const Recipe& recipe) {
  if (!has_use_for_prior(recipe)) return "";
  if (recipe.command) {
    return "what the parameters of a command are is not known";
  }
  const std::vector<Parameter>& parameters = recipe.space.parameters();
  if (std::none_of(parameters.begin(), parameters.end(),
                   [](const Parameter& p) { return is_cube_key(p.key); })) {
    return "the space has neither learning rate nor L2 nor dropout";
  }
  const auto tuned = std::find_if(
      parameters.begin(), parameters.end(),
      [](const Parameter& p) { return p.key == "train.optimizer"; });
  if (tuned != parameters.end()) {
    const bool only_sgd =
        std::all_of(tuned->choices.begin(), tuned->choices.end(), is_sgd);
    return only_sgd ? ""
                    : "it was learnt from SGD, and other optimizers are tried";
  }
  if (recipe.train.optimizer == OptimizerKind::sgd) return "";
  return fmt::format("it was learnt from SGD, and train.optimizer is {}",
                     to_string(recipe.train.optimizer));
}

}  // namespace dtune
