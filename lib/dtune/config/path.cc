#include "dtune/config/path.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "dtune/base/suggest.h"
#include "dtune/config/layer_list.h"
#include "dtune/config/schema.h"

namespace dtune {
namespace {

const std::string kLayers = "model.layers.";

struct LayerKey {
  std::string layer;
  std::string field;
};

// "model.layers.c1.channels" -> c1, channels; both "" for another key.
LayerKey split_layer_key(const std::string& key) {
  if (!key.starts_with(kLayers)) return {};
  const std::string rest = key.substr(kLayers.size());
  const size_t dot = rest.rfind('.');
  if (dot == std::string::npos) return {rest, ""};
  return {rest.substr(0, dot), rest.substr(dot + 1)};
}

// The entry of a map that the longest beginning of `rest` names (names in
// `space:` may have dots); takes it off `rest`.
const YamlNode* step_down(const YamlNode& map, std::string& rest) {
  const YamlNode* best = nullptr;
  for (const YamlNode& item : map.items) {
    const bool begins = rest == item.key || rest.starts_with(item.key + ".");
    const bool longer = best == nullptr || item.key.size() > best->key.size();
    if (map.is_map() && begins && longer) best = &item;
  }
  if (best != nullptr) {
    rest = rest.size() == best->key.size() ? ""
                                           : rest.substr(best->key.size() + 1);
  }
  return best;
}

// The deepest node on the way to `key`; `rest` is what was not found.
const YamlNode& descend(const YamlNode& recipe, const std::string& key,
                        std::string& rest) {
  const YamlNode* at = &recipe;
  rest = key;
  while (!rest.empty()) {
    const YamlNode* next = step_down(*at, rest);
    if (next == nullptr) break;
    at = next;
  }
  return *at;
}

YamlNode* layer_of(YamlNode& recipe, const std::string& name) {
  YamlNode* model = recipe.find("model");
  YamlNode* layers = model != nullptr ? model->find("layers") : nullptr;
  return layers != nullptr ? find_layer(*layers, name) : nullptr;
}

std::string no_layer(const YamlNode& recipe, const std::string& name) {
  const YamlNode* layers = find_path(recipe, "model.layers");
  if (layers == nullptr) {
    return "this model has no list of layers (its arch is named)";
  }
  return fmt::format("no layer is called '{}'{}", name,
                     did_you_mean(name, layer_names(*layers)));
}

std::string set_layer_field(YamlNode& recipe, const std::string& key,
                            const YamlNode& value) {
  const auto [name, field] = split_layer_key(key);
  YamlNode* layer = layer_of(recipe, name);
  if (layer == nullptr) return no_layer(recipe, name);
  layer->entry(field, value.mark).set_value(value);
  return "";
}

bool is_tunable(const std::string& key) {
  constexpr std::array kFixed = {"train.epochs", "train.step.samples",
                                 "train.device", "model.layers"};
  if (std::find(kFixed.begin(), kFixed.end(), key) != kFixed.end()) {
    return false;
  }
  return key.starts_with("train.") || key.starts_with("model.") ||
         key.starts_with("data.augment.") || key == "data.balance" ||
         key == "data.normalize";
}

}  // namespace

const YamlNode* find_path(const YamlNode& recipe, const std::string& key) {
  const LayerKey layer_key = split_layer_key(key);
  if (!layer_key.field.empty()) {
    // find_layer works on trees to be changed; this one is not.
    YamlNode* layer = layer_of(const_cast<YamlNode&>(recipe), layer_key.layer);
    return layer != nullptr ? layer->find(layer_key.field) : nullptr;
  }
  std::string rest;
  const YamlNode& found = descend(recipe, key, rest);
  return rest.empty() ? &found : nullptr;
}

Mark mark_of_path(const YamlNode& recipe, const std::string& key) {
  const LayerKey layer_key = split_layer_key(key);
  if (!layer_key.field.empty()) {
    YamlNode* layer = layer_of(const_cast<YamlNode&>(recipe), layer_key.layer);
    if (layer != nullptr) return layer->key_mark;
  }
  std::string rest;
  const YamlNode& found = descend(recipe, key, rest);
  if (&found == &recipe) return {.line = 1, .column = 1};
  return rest.empty() ? found.mark : found.key_mark;
}

std::string set_path(YamlNode& recipe, const std::string& key,
                     const YamlNode& value) {
  if (!split_layer_key(key).field.empty()) {
    return set_layer_field(recipe, key, value);
  }
  std::string rest;
  auto* at = const_cast<YamlNode*>(&descend(recipe, key, rest));
  std::string done = key.substr(0, key.size() - rest.size());
  // What stands in `space:` and is not there yet is one name, dots and all.
  const bool whole_name = done == "space.";
  while (!rest.empty()) {
    if (!at->is_map() && !at->is_null()) {
      if (!done.empty()) done.pop_back();
      return fmt::format("'{}' is {}, not a section", done, describe_node(*at));
    }
    const size_t dot = whole_name ? std::string::npos : rest.find('.');
    const std::string name = rest.substr(0, dot);
    if (name.empty()) return "a key needs a word on each side of every dot";
    rest = dot == std::string::npos ? "" : rest.substr(dot + 1);
    if (dot != std::string::npos && rest.empty()) {
      return "a key needs a word on each side of every dot";
    }
    done += name + ".";
    at = &at->entry(name, value.mark);
  }
  at->set_value(value);
  return "";
}

std::vector<std::string> tunable_keys(const YamlNode& recipe) {
  std::vector<std::string> keys;
  for (const std::string& key : recipe_keys()) {
    if (is_tunable(key)) keys.push_back(key);
  }
  const YamlNode* layers = find_path(recipe, "model.layers");
  if (layers != nullptr) {
    for (const std::string& field : layer_field_keys(*layers)) {
      keys.push_back(kLayers + field);
    }
  }
  return keys;
}

}  // namespace dtune
