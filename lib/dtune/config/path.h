// Dotted keys ("train.batch_size", "model.layers.conv1.channels",
// "space.train.momentum.log") in a written-out recipe.
#pragma once

#include <string>
#include <vector>

#include "dtune/config/yaml_node.h"

namespace dtune {

// The value at a dotted key, or null.
const YamlNode* find_path(const YamlNode& recipe, const std::string& key);

// The place of the key: its own, else that of the nearest section around it.
Mark mark_of_path(const YamlNode& recipe, const std::string& key);

// Puts a value at a dotted key, sections made as needed. Returns why that is
// impossible, or "".
std::string set_path(YamlNode& recipe, const std::string& key,
                     const YamlNode& value);

// All keys that a parameter may set: train.*, model.*, data.augment.*,
// data.balance, data.normalize, without what the scheduler decides on; and the
// fields of the recipe's layers.
std::vector<std::string> tunable_keys(const YamlNode& recipe);

}  // namespace dtune
