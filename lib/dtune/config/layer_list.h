// `layers:` of a recipe.
#pragma once

#include <string>
#include <vector>

#include "dtune/config/fields.h"
#include "dtune/study/layers.h"

namespace dtune {

// Reads or writes a list of layers in its long form: [{conv: {channels: 32,
// ...}}, ...].
void describe_layers(Fields& fields, const std::string& key,
                     std::vector<LayerSpec>& layers);

// Rewrites the short forms of a layer list in place: `relu`, `conv: 32`,
// `residual: [...]`, `dropout: d1`. Gives unnamed layers the names that they
// would get anyway, so that `model.layers.<name>.<field>` finds them. What is
// no layer stays as it is, for the reader to complain about.
void expand_layers(YamlNode& list);

// The fields of the layer called `name`, in a long list; null if there is none.
YamlNode* find_layer(YamlNode& list, const std::string& name);
std::vector<std::string> layer_names(const YamlNode& list);
// "conv1.channels", "conv1.kernel", ...: what each layer of a long list takes.
std::vector<std::string> layer_field_keys(const YamlNode& list);

}  // namespace dtune
