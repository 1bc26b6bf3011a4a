#include "dtune/config/layer_list.h"

#include <map>
#include <set>

#include <fmt/format.h>

namespace dtune {
namespace {

constexpr double kMaxChannels = 65536;
constexpr double kMaxKernel = 1024;

Range channels_of(LayerKind kind) {
  Range range = between(1, kMaxChannels);
  if (kind == LayerKind::linear) {
    range.advice =
        " (leave it out for the classes: that layer is added at the end)";
  }
  return range;
}

void describe_field(Fields& f, LayerSpec& layer, LayerField field) {
  const char* key = to_string(field);
  switch (field) {
    case LayerField::channels:
      return f.integer(key, layer.channels, channels_of(layer.kind));
    case LayerField::kernel:
      return f.integer(key, layer.kernel, between(1, kMaxKernel));
    case LayerField::stride:
      return f.integer(key, layer.stride, between(1, kMaxKernel));
    case LayerField::padding:
      if (!f.reading() && layer.padding < 0) return;
      return f.integer(key, layer.padding, between(0, kMaxKernel));
    case LayerField::groups:
      return f.integer(key, layer.groups, between(1, kMaxChannels));
    case LayerField::bias:
      return f.flag(key, layer.bias);
    case LayerField::p:
      if (!f.reading() && layer.p < 0) return;
      return f.real(key, layer.p, up_to_below(0, 1));
    case LayerField::body:
      return describe_layers(f, key, layer.body);
    case LayerField::shortcut:
      return describe_layers(f, key, layer.shortcut);
  }
}

void describe_layer(Fields& f, LayerSpec& layer) {
  const LayerTraits& traits = traits_of(layer.kind);
  f.text("name", layer.name);
  if (f.reading() && traits.kernel > 0) layer.kernel = traits.kernel;
  if (f.reading() && traits.steps_by_kernel) layer.stride = 0;
  for (const LayerField field : traits.fields) describe_field(f, layer, field);
  if (traits.steps_by_kernel && layer.stride == 0) layer.stride = layer.kernel;
}

// Layers within a layer are no values that a parameter may set.
bool is_value(LayerField field) {
  return field != LayerField::body && field != LayerField::shortcut;
}

// `relu` or `conv: 32` as {relu: {}} or {conv: {channels: 32}}.
void expand_layer(YamlNode& item) {
  if (item.is_scalar()) {
    YamlNode map = YamlNode::map(item.mark);
    YamlNode& fields = map.entry(item.text, item.mark);
    fields.kind = YamlNode::Kind::map;
    item.set_value(map);
  }
  if (!item.is_map() || item.items.size() != 1) return;
  YamlNode& fields = item.items[0];
  const auto kind = parse_layer_kind(fields.key);
  if (!kind) {
    if (!fields.is_map()) fields.set_value(YamlNode::map(fields.key_mark));
    return;
  }
  if (fields.is_null()) fields.set_value(YamlNode::map(fields.key_mark));
  if (fields.is_map()) return;
  if (const auto field = traits_of(*kind).main) {
    YamlNode map = YamlNode::map(fields.mark);
    map.entry(to_string(*field), fields.mark).set_value(fields);
    fields.set_value(map);
  }
}

void rename(YamlNode& fields, const std::string& old_name,
            const std::string& new_name) {
  YamlNode* found = fields.find(old_name);
  if (found != nullptr && fields.find(new_name) == nullptr) {
    found->key = new_name;
  }
}

// Names a user gave, so that none of ours takes one.
void collect_names(const YamlNode& list, std::set<std::string>& names) {
  for (const std::string& name : layer_names(list)) names.insert(name);
}

struct Naming {
  std::set<std::string> taken;
  std::map<std::string, int> count;
};

// Calls visit(kind, fields) for every layer, outer ones first.
template <typename Node, typename Visit>
void for_each_layer(Node& list, const Visit& visit) {
  if (!list.is_list()) return;
  for (auto& item : list.items) {
    if (!item.is_map() || item.items.size() != 1) continue;
    auto& fields = item.items[0];
    if (!fields.is_map()) continue;
    visit(fields.key, fields);
    for (const char* inner : {"body", "shortcut"}) {
      if (auto* inside = fields.find(inner)) for_each_layer(*inside, visit);
    }
  }
}

// As expand_model names them: kind and number among the layers of its kind.
void name_layers(YamlNode& list, Naming& naming) {
  for_each_layer(list, [&](const std::string& kind, YamlNode& fields) {
    if (!parse_layer_kind(kind)) return;
    int& number = naming.count[kind];
    ++number;
    if (fields.find("name") != nullptr) return;
    std::string name = fmt::format("{}{}", kind, number);
    while (!naming.taken.insert(name).second) {
      name = fmt::format("{}{}", kind, ++number);
    }
    fields.entry("name", fields.mark)
        .set_value(YamlNode::scalar(name, fields.mark));
  });
}

void expand_list(YamlNode& list) {
  if (!list.is_list()) return;
  for (YamlNode& item : list.items) {
    expand_layer(item);
    if (!item.is_map() || item.items.size() != 1) continue;
    YamlNode& fields = item.items[0];
    if (fields.key == "linear") rename(fields, "features", "channels");
    for (const char* inner : {"body", "shortcut"}) {
      if (YamlNode* inside = fields.find(inner)) expand_list(*inside);
    }
  }
}

}  // namespace

void describe_layers(Fields& fields, const std::string& key,
                     std::vector<LayerSpec>& layers) {
  if (fields.reading()) layers.clear();
  const auto describe = [&](size_t index, size_t& kind,
                            const std::string& where, Fields& inside) {
    if (fields.reading()) {
      layers.push_back({.kind = static_cast<LayerKind>(kind), .where = where});
    }
    LayerSpec& layer = layers[index];
    kind = static_cast<size_t>(layer.kind);
    describe_layer(inside, layer);
  };
  fields.kinds(key, layers.size(), layer_kind_names(), describe);
}

void expand_layers(YamlNode& list) {
  expand_list(list);
  Naming naming;
  collect_names(list, naming.taken);
  name_layers(list, naming);
}

YamlNode* find_layer(YamlNode& list, const std::string& name) {
  YamlNode* found = nullptr;
  for_each_layer(list, [&](const std::string&, YamlNode& fields) {
    const YamlNode* own = fields.find("name");
    if (own != nullptr && own->text == name) found = &fields;
  });
  return found;
}

std::vector<std::string> layer_names(const YamlNode& list) {
  std::vector<std::string> names;
  for_each_layer(list, [&](const std::string&, const YamlNode& fields) {
    const YamlNode* own = fields.find("name");
    if (own != nullptr && own->is_scalar()) names.push_back(own->text);
  });
  return names;
}

std::vector<std::string> layer_field_keys(const YamlNode& list) {
  std::vector<std::string> keys;
  for_each_layer(list, [&](const std::string& word, const YamlNode& fields) {
    const auto kind = parse_layer_kind(word);
    const YamlNode* name = fields.find("name");
    if (!kind || name == nullptr) return;
    for (const LayerField field : traits_of(*kind).fields) {
      if (is_value(field)) keys.push_back(name->text + "." + to_string(field));
    }
  });
  return keys;
}

}  // namespace dtune
