// The architectures that a recipe can name, written out as layer lists.
#include <functional>
#include <set>

#include <fmt/format.h>

#include "dtune/base/suggest.h"
#include "dtune/study/layers.h"

namespace dtune {
namespace {

using Layers = std::vector<LayerSpec>;

LayerSpec of(LayerKind kind) { return {.kind = kind}; }

LayerSpec conv(int channels, int kernel, int stride = 1) {
  return {.kind = LayerKind::conv,
          .channels = channels,
          .kernel = kernel,
          .stride = stride,
          .padding = kernel / 2};
}

// Followed by a normalisation, whose shift makes a bias idle.
LayerSpec bare_conv(int channels, int kernel, int stride = 1) {
  LayerSpec layer = conv(channels, kernel, stride);
  layer.bias = false;
  return layer;
}

LayerSpec linear(int features) {
  return {.kind = LayerKind::linear, .channels = features};
}

LayerSpec pool(LayerKind kind, int kernel, int stride, int padding = 0) {
  return {.kind = kind, .kernel = kernel, .stride = stride, .padding = padding};
}

void append(Layers& layers, const Layers& more) {
  layers.insert(layers.end(), more.begin(), more.end());
}

// What a builder needs to know.
struct Plan {
  const ModelSpec& model;
  Shape input;
  int classes;

  int width(int standard) const {
    return model.width > 0 ? model.width : standard;
  }
};

// The network of countless tutorials; 8.5 MFLOP forward on 1x28x28.
Layers cnn_small(const Plan& plan) {
  const int w = plan.width(32);
  return {conv(w, 3),
          of(LayerKind::relu),
          pool(LayerKind::max_pool, 2, 2),
          conv(2 * w, 3),
          of(LayerKind::relu),
          pool(LayerKind::max_pool, 2, 2),
          of(LayerKind::flatten),
          linear(4 * w),
          of(LayerKind::relu),
          of(LayerKind::dropout),
          linear(plan.classes)};
}

// LeNet-5 (LeCun et al. 1998, doi 10.1109/5.726791) with full connections in
// the second convolution; images below its 32 pixels are padded.
Layers lenet(const Plan& plan) {
  const int w = plan.width(6);
  LayerSpec first = conv(w, 5);
  first.padding = plan.input.height < 32 ? 2 : 0;
  LayerSpec second = conv(w * 16 / 6, 5);
  second.padding = 0;
  return {first,
          of(LayerKind::tanh),
          pool(LayerKind::avg_pool, 2, 2),
          second,
          of(LayerKind::tanh),
          pool(LayerKind::avg_pool, 2, 2),
          of(LayerKind::flatten),
          linear(20 * w),
          of(LayerKind::tanh),
          linear(14 * w),
          of(LayerKind::tanh),
          of(LayerKind::dropout),
          linear(plan.classes)};
}

// ImageNet's stem quarters the image; small images keep their size, as is
// usual for CIFAR.
Layers resnet_stem(const Plan& plan, int w) {
  constexpr int kSmallImage = 64;
  const bool small =
      plan.input.height <= kSmallImage && plan.input.width <= kSmallImage;
  Layers stem = {bare_conv(w, small ? 3 : 7, small ? 1 : 2),
                 of(LayerKind::batch_norm), of(LayerKind::relu)};
  if (!small) stem.push_back(pool(LayerKind::max_pool, 3, 2, 1));
  return stem;
}

struct Block {
  int in = 0;
  int width = 0;
  int stride = 1;
};

LayerSpec residual(Layers body, Layers shortcut) {
  return {.kind = LayerKind::residual,
          .body = std::move(body),
          .shortcut = std::move(shortcut)};
}

// A projection where the shape changes (option B of He et al. 2015).
Layers projection(const Block& block, int out) {
  if (block.stride == 1 && block.in == out) return {};
  return {bare_conv(out, 1, block.stride), of(LayerKind::batch_norm)};
}

Layers basic_block(const Block& block) {
  const int w = block.width;
  return {residual(
              {bare_conv(w, 3, block.stride), of(LayerKind::batch_norm),
               of(LayerKind::relu), bare_conv(w, 3), of(LayerKind::batch_norm)},
              projection(block, w)),
          of(LayerKind::relu)};
}

// Version 1.5: the stride is in the 3x3 convolution, as in torchvision.
Layers bottleneck_block(const Block& block) {
  const int w = block.width;
  return {residual({bare_conv(w, 1), of(LayerKind::batch_norm),
                    of(LayerKind::relu), bare_conv(w, 3, block.stride),
                    of(LayerKind::batch_norm), of(LayerKind::relu),
                    bare_conv(4 * w, 1), of(LayerKind::batch_norm)},
                   projection(block, 4 * w)),
          of(LayerKind::relu)};
}

// He et al. 2015, arXiv 1512.03385. The dropout before the classifier is an
// addition that does nothing at its default of 0.
Layers resnet(const Plan& plan, const std::vector<int>& blocks, int expansion,
              const std::function<Layers(const Block&)>& make) {
  const int w = plan.width(64);
  Layers layers = resnet_stem(plan, w);
  int in = w;
  for (size_t stage = 0; stage < blocks.size(); ++stage) {
    const int stage_width = w << stage;
    for (int i = 0; i < blocks[stage]; ++i) {
      const int stride = stage > 0 && i == 0 ? 2 : 1;
      append(layers, make({in, stage_width, stride}));
      in = stage_width * expansion;
    }
  }
  append(layers, {of(LayerKind::global_avg_pool), of(LayerKind::dropout),
                  linear(plan.classes)});
  return layers;
}

Layers resnet18(const Plan& plan) {
  return resnet(plan, {2, 2, 2, 2}, 1, basic_block);
}

Layers resnet50(const Plan& plan) {
  return resnet(plan, {3, 4, 6, 3}, 4, bottleneck_block);
}

// Pre-activation block with dropout between its convolutions. Where the shape
// changes, activation comes before the fork: body and shortcut share it.
Layers wide_block(const Block& block) {
  const int w = block.width;
  const Layers activation = {of(LayerKind::batch_norm), of(LayerKind::relu)};
  Layers body = {bare_conv(w, 3, block.stride)};
  append(body, activation);
  append(body, {of(LayerKind::dropout), bare_conv(w, 3)});
  if (block.in == w && block.stride == 1) {
    body.insert(body.begin(), activation.begin(), activation.end());
    return {residual(body, {})};
  }
  Layers layers = activation;
  layers.push_back(residual(body, {bare_conv(w, 1, block.stride)}));
  return layers;
}

// WRN-depth-width (Zagoruyko and Komodakis 2016, arXiv 1605.07146).
Layers wide_resnet(const Plan& plan) {
  const int depth = plan.model.depth > 0 ? plan.model.depth : 16;
  if (depth < 10 || depth % 6 != 4) {
    throw Error(ErrorKind::config,
                fmt::format("model.depth: wide-resnet has no depth {} (use 6 n "
                            "+ 4: 10, 16, 22, 28, 34, 40)",
                            depth));
  }
  const int widening = plan.width(4);
  Layers layers = {bare_conv(16, 3)};
  int in = 16;
  for (int group = 0; group < 3; ++group) {
    const int w = (16 << group) * widening;
    for (int i = 0; i < (depth - 4) / 6; ++i) {
      append(layers, wide_block({in, w, group > 0 && i == 0 ? 2 : 1}));
      in = w;
    }
  }
  append(layers, {of(LayerKind::batch_norm), of(LayerKind::relu),
                  of(LayerKind::global_avg_pool), linear(plan.classes)});
  return layers;
}

Layers user_layers(const Plan& plan) {
  Layers layers = plan.model.layers;
  const bool ends_in_classes = layers.back().kind == LayerKind::linear &&
                               layers.back().channels == plan.classes;
  if (!ends_in_classes) layers.push_back(linear(plan.classes));
  return layers;
}

struct Architecture {
  const char* name;
  Layers (*build)(const Plan&);
};

constexpr Architecture kZoo[] = {{"cnn-small", cnn_small},
                                 {"lenet", lenet},
                                 {"resnet18", resnet18},
                                 {"resnet50", resnet50},
                                 {"wide-resnet", wide_resnet}};

Layers named_layers(const Plan& plan) {
  for (const Architecture& architecture : kZoo) {
    if (plan.model.arch == architecture.name) return architecture.build(plan);
  }
  throw Error(
      ErrorKind::config,
      fmt::format("model.arch: unknown architecture '{}'{}", plan.model.arch,
                  did_you_mean(plan.model.arch, zoo_names())));
}

void collect_names(const Layers& layers, std::set<std::string>& names) {
  for (const LayerSpec& layer : layers) {
    if (!layer.name.empty() && !names.insert(layer.name).second) {
      throw Error(
          ErrorKind::config,
          fmt::format("{}{}layer '{}': two layers have this name", layer.where,
                      layer.where.empty() ? "" : ": ", layer.name));
    }
    collect_names(layer.body, names);
    collect_names(layer.shortcut, names);
  }
}

struct Naming {
  std::set<std::string> taken;
  int count[size_t(LayerKind::residual) + 1] = {};
};

void complete(Layers& layers, double model_dropout, Naming& naming) {
  for (LayerSpec& layer : layers) {
    int& number = naming.count[size_t(layer.kind)];
    ++number;
    while (layer.name.empty()) {
      const std::string name =
          fmt::format("{}{}", to_string(layer.kind), number);
      if (naming.taken.insert(name).second) {
        layer.name = name;
      } else {
        ++number;
      }
    }
    if (layer.kind == LayerKind::dropout && layer.p == -1) {
      layer.p = model_dropout;
    }
    layer.padding = effective_padding(layer);
    complete(layer.body, model_dropout, naming);
    complete(layer.shortcut, model_dropout, naming);
  }
}

}  // namespace

const std::vector<std::string>& zoo_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Architecture& one : kZoo) all.emplace_back(one.name);
    return all;
  }();
  return names;
}

std::vector<LayerSpec> expand_model(const ModelSpec& model, const Shape& input,
                                    int classes) {
  const Plan plan{.model = model, .input = input, .classes = classes};
  Layers layers = model.layers.empty() ? named_layers(plan) : user_layers(plan);
  Naming naming;
  collect_names(layers, naming.taken);
  complete(layers, model.dropout, naming);
  return layers;
}

}  // namespace dtune
