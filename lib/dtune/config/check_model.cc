#include <algorithm>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/text.h"
#include "dtune/config/check.h"
#include "dtune/config/check_context.h"
#include "dtune/study/data_shape.h"

namespace dtune {
namespace {

void collect(const std::vector<LayerSpec>& layers,
             std::vector<const LayerSpec*>& all) {
  for (const LayerSpec& layer : layers) {
    all.push_back(&layer);
    collect(layer.body, all);
    collect(layer.shortcut, all);
  }
}

Mark mark_of_layer(const CheckContext& c, const LayerSpec& layer) {
  return mark_of_path(c.tree, "model.layers." + layer.name + ".name");
}

bool is_misread(const CheckContext& c, const LayerSpec& layer) {
  const auto& fields = traits_of(layer.kind).fields;
  return std::any_of(fields.begin(), fields.end(), [&](LayerField field) {
    return c.is_misread("model.layers." + layer.name + "." + to_string(field));
  });
}

// Texts of layers begin with their place.
void add_model_error(const CheckContext& c, const std::string& text) {
  std::vector<const LayerSpec*> layers;
  collect(c.recipe.model.layers, layers);
  for (const LayerSpec* layer : layers) {
    const std::string head = layer->where + ": ";
    if (layer->where.empty() || !text.starts_with(head)) continue;
    if (is_misread(c, *layer)) return;  // what follows from that
    c.diagnostics.add(layer->where, mark_of_layer(c, *layer),
                      text.substr(head.size()));
    return;
  }
  for (const char* key : {"model.arch", "model.depth"}) {
    const std::string head = std::string(key) + ": ";
    if (!text.starts_with(head)) continue;
    c.complain(key, text.substr(head.size()));
    return;
  }
  c.complain("model", text);
}

// They name weights, and stand in dotted keys.
void check_layer_names(const CheckContext& c,
                       const std::vector<LayerSpec>& layers) {
  for (const LayerSpec& layer : layers) {
    const std::string& name = layer.name;
    const bool good =
        !name.empty() && name.size() <= 64 && is_plain(name, "_-");
    if (!good) {
      c.diagnostics.add(layer.where, mark_of_layer(c, layer),
                        "a layer's name is 1 to 64 letters, digits, '_' and "
                        "'-'");
    }
    check_layer_names(c, layer.body);
    check_layer_names(c, layer.shortcut);
  }
}

// A study that was stored with too many stages can still be looked at.
void check_stages(const CheckContext& c, size_t layers) {
  const auto problem = find_stage_problem(c.recipe, layers);
  if (!problem || c.is_misread("model.arch")) return;
  if (!c.is_fresh(problem->key) && !c.is_fresh("parallel.mode")) return;
  c.complain(problem->key, problem->message);
}

}  // namespace

// Expands the model and follows the shapes, as far as they are known
// without the data.
void check_model(const CheckContext& c) {
  const YamlNode* layers_node = find_path(c.tree, "model.layers");
  if (layers_node != nullptr && layers_node->items.empty()) {
    c.complain("model.layers",
               "'layers' is empty (list some, or name an arch)");
    return;
  }
  check_layer_names(c, c.recipe.model.layers);
  DataShape shape = known_data_shape(c.recipe.data);
  const bool known = shape.image.channels > 0;
  if (!known) shape.image = {.channels = 3, .height = 224, .width = 224};
  // A list of layers may get one more, for the classes.
  const bool counts_layers =
      known && (shape.classes > 0 || c.recipe.model.layers.empty());
  if (shape.classes == 0) shape.classes = 2;
  try {
    const auto layers =
        expand_model(c.recipe.model, shape.image, shape.classes);
    if (known) infer_shapes(layers, shape.image);
    if (counts_layers) check_stages(c, layers.size());
  } catch (const Error& error) {
    add_model_error(c, error.what());
  }
}

std::optional<StageProblem> find_stage_problem(const Recipe& recipe,
                                               size_t layers) {
  const ParallelSpec& parallel = recipe.parallel;
  const bool hybrid = parallel.mode == ParallelMode::hybrid;
  if (!hybrid && parallel.mode != ParallelMode::model) return std::nullopt;
  const auto stages =
      static_cast<size_t>(hybrid ? parallel.model : parallel.ranks);
  if (stages <= layers) return std::nullopt;
  for (const Parameter& parameter : recipe.space.parameters()) {
    const std::string& key = parameter.key;
    if (key == "model.arch" || key == "model.depth") return std::nullopt;
  }
  const char* key = hybrid ? "parallel.model" : "parallel.ranks";
  return StageProblem{
      key, fmt::format("'{}': {} stages are more than the model's {} layers "
                       "(at most {}, or a deeper model; a residual block "
                       "counts as one layer)",
                       key, stages, layers, layers)};
}

}  // namespace dtune
