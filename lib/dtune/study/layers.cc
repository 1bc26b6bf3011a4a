#include "dtune/study/layers.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "dtune/base/random.h"
#include "dtune/study/words.h"

namespace dtune {
namespace {

using Field = LayerField;

constexpr Words<9> kFields = {"channels", "kernel", "stride",
                              "padding",  "groups", "bias",
                              "p",        "body",   "shortcut"};
static_assert(size_t(Field::shortcut) + 1 == kFields.size());

constexpr Field kConv[] = {Field::channels, Field::kernel, Field::stride,
                           Field::padding,  Field::groups, Field::bias};
constexpr Field kLinear[] = {Field::channels, Field::bias};
constexpr Field kPool[] = {Field::kernel, Field::stride, Field::padding};
constexpr Field kGroupNorm[] = {Field::groups};
constexpr Field kDropout[] = {Field::p};
constexpr Field kResidual[] = {Field::body, Field::shortcut};

// By LayerKind, whose values are in checkpoints' fingerprints: new kinds go
// last.
constexpr auto kKinds = std::to_array<LayerTraits>({
    {"conv", kConv, Field::channels, 3},
    {"linear", kLinear, Field::channels},
    {"batch_norm", {}},
    {"group_norm", kGroupNorm, Field::groups},
    {"relu", {}},
    {"gelu", {}},
    {"tanh", {}},
    {"max_pool", kPool, Field::kernel, 2, true},
    {"avg_pool", kPool, Field::kernel, 2, true},
    {"global_avg_pool", {}},
    {"flatten", {}},
    {"dropout", kDropout, Field::p},
    {"residual", kResidual, Field::body},
});
static_assert(size_t(LayerKind::residual) + 1 == kKinds.size());

// What a layer list makes of a shape; also the sum of its costs.
struct Walk {
  Shape shape;
  int64_t parameters = 0;
  int64_t flops = 0;
};

[[noreturn]] void reject(const LayerSpec& layer, const std::string& text) {
  const std::string place = layer.where.empty() ? "" : layer.where + ": ";
  const std::string name =
      layer.name.empty() ? to_string(layer.kind) : layer.name;
  throw Error(ErrorKind::config,
              fmt::format("{}layer '{}': {}", place, name, text));
}

constexpr int kMaxChannels = 1 << 16;
constexpr int kMaxKernel = 1 << 10;
constexpr int64_t kMaxElements = int64_t{1} << 28;

void check_channels(const LayerSpec& layer) {
  if (layer.channels == 0) {
    reject(layer, fmt::format("has no output channels (write {}: 32)",
                              to_string(layer.kind)));
  }
  if (layer.channels < 1 || layer.channels > kMaxChannels) {
    reject(layer, fmt::format("{} output channels are outside 1 to {}",
                              layer.channels, kMaxChannels));
  }
}

void check_window(const LayerSpec& layer) {
  if (layer.kernel < 1 || layer.kernel > kMaxKernel) {
    reject(layer, fmt::format("kernel {} is outside 1 to {}", layer.kernel,
                              kMaxKernel));
  }
  if (layer.stride < 1 || layer.stride > kMaxKernel) {
    reject(layer, fmt::format("stride {} is outside 1 to {}", layer.stride,
                              kMaxKernel));
  }
  if (layer.padding < -1 || layer.padding > kMaxKernel) {
    reject(layer, fmt::format("padding {} is outside 0 to {}", layer.padding,
                              kMaxKernel));
  }
}

void require_image(const LayerSpec& layer, const Shape& input) {
  if (!input.flat) return;
  reject(layer, fmt::format("needs an image, but its input is flat ({}) (move "
                            "it before flatten and linear)",
                            to_string(input)));
}

// floor((size + 2 padding - kernel) / stride) + 1
int window_output(const LayerSpec& layer, int size, int padding) {
  return (size + 2 * padding - layer.kernel) / layer.stride + 1;
}

Shape slide_window(const LayerSpec& layer, const Shape& input) {
  const int padding = effective_padding(layer);
  const int smallest = std::min(input.height, input.width);
  if (layer.kernel > smallest + 2 * padding) {
    const int needed = (layer.kernel - smallest + 1) / 2;
    // A pool's padding is at most half of its kernel.
    const bool can_pad =
        layer.kind == LayerKind::conv || needed <= layer.kernel / 2;
    reject(layer, fmt::format("kernel {} does not fit its input {} (use {}a "
                              "smaller kernel)",
                              layer.kernel, to_string(input),
                              can_pad ? fmt::format("padding: {} or ", needed)
                                      : std::string()));
  }
  return {.channels = input.channels,
          .height = window_output(layer, input.height, padding),
          .width = window_output(layer, input.width, padding),
          .flat = false};
}

Walk conv(const LayerSpec& layer, const Shape& input) {
  require_image(layer, input);
  check_channels(layer);
  check_window(layer);
  if (layer.groups < 1 || input.channels % layer.groups != 0 ||
      layer.channels % layer.groups != 0) {
    reject(layer, fmt::format("groups {} does not divide both its {} input and "
                              "{} output channels",
                              layer.groups, input.channels, layer.channels));
  }
  Walk walk{.shape = slide_window(layer, input)};
  walk.shape.channels = layer.channels;
  const int64_t weights = int64_t{layer.kernel} * layer.kernel *
                          (input.channels / layer.groups) * layer.channels;
  walk.parameters = weights + (layer.bias ? layer.channels : 0);
  walk.flops = 2 * weights * walk.shape.height * walk.shape.width;
  return walk;
}

Walk linear(const LayerSpec& layer, const Shape& input) {
  check_channels(layer);
  const int64_t weights = input.elements() * layer.channels;
  return {.shape = {.channels = layer.channels, .flat = true},
          .parameters = weights + (layer.bias ? layer.channels : 0),
          .flops = 2 * weights};
}

Walk pool(const LayerSpec& layer, const Shape& input) {
  require_image(layer, input);
  check_window(layer);
  if (effective_padding(layer) > layer.kernel / 2) {
    reject(layer, fmt::format("padding {} is more than half of its kernel {}",
                              layer.padding, layer.kernel));
  }
  return {.shape = slide_window(layer, input)};
}

Walk group_norm(const LayerSpec& layer, const Shape& input) {
  if (layer.groups < 1 || input.channels % layer.groups != 0) {
    reject(layer, fmt::format("groups {} does not divide its {} channels",
                              layer.groups, input.channels));
  }
  return {.shape = input, .parameters = int64_t{2} * input.channels};
}

Walk dropout(const LayerSpec& layer, const Shape& input) {
  const bool from_model = layer.p == -1;
  if (!from_model && !(layer.p >= 0 && layer.p < 1)) {
    reject(layer, fmt::format("p {} is outside [0, 1)", layer.p));
  }
  return {.shape = input};
}

Walk walk_list(const std::vector<LayerSpec>& layers, const Shape& input);

Walk residual(const LayerSpec& layer, const Shape& input) {
  if (layer.body.empty()) {
    reject(layer, "its body is empty (give it layers: body: [...])");
  }
  const Walk body = walk_list(layer.body, input);
  const Walk shortcut = walk_list(layer.shortcut, input);
  if (body.shape != shortcut.shape) {
    reject(layer,
           fmt::format("its body gives {} but its {} {}, and the two are added "
                       "(give both the same channels and strides)",
                       to_string(body.shape),
                       layer.shortcut.empty() ? "input is" : "shortcut gives",
                       to_string(shortcut.shape)));
  }
  return {.shape = body.shape,
          .parameters = body.parameters + shortcut.parameters,
          .flops = body.flops + shortcut.flops};
}

Walk walk_kind(const LayerSpec& layer, const Shape& input) {
  switch (layer.kind) {
    case LayerKind::conv:
      return conv(layer, input);
    case LayerKind::linear:
      return linear(layer, input);
    case LayerKind::batch_norm:
      return {.shape = input, .parameters = int64_t{2} * input.channels};
    case LayerKind::group_norm:
      return group_norm(layer, input);
    case LayerKind::relu:
    case LayerKind::gelu:
    case LayerKind::tanh:
      return {.shape = input};
    case LayerKind::max_pool:
    case LayerKind::avg_pool:
      return pool(layer, input);
    case LayerKind::global_avg_pool:
      require_image(layer, input);
      return {.shape = {.channels = input.channels, .flat = true}};
    case LayerKind::flatten:
      if (input.elements() > kMaxElements) reject(layer, "too many features");
      return {.shape = {.channels = static_cast<int>(input.elements()),
                        .flat = true}};
    case LayerKind::dropout:
      return dropout(layer, input);
    case LayerKind::residual:
      return residual(layer, input);
  }
  reject(layer, "is of an unknown kind");
}

Walk walk_layer(const LayerSpec& layer, const Shape& input) {
  Walk walk = walk_kind(layer, input);
  if (walk.shape.elements() > kMaxElements) {
    reject(layer, fmt::format("its output {} has more than {} numbers a sample",
                              to_string(walk.shape), kMaxElements));
  }
  return walk;
}

Walk walk_list(const std::vector<LayerSpec>& layers, const Shape& input) {
  Walk sum{.shape = input};
  for (const LayerSpec& layer : layers) {
    const Walk walk = walk_layer(layer, sum.shape);
    sum.shape = walk.shape;
    sum.parameters += walk.parameters;
    sum.flops += walk.flops;
  }
  return sum;
}

}  // namespace

const LayerTraits& traits_of(LayerKind kind) {
  return kKinds.at(static_cast<size_t>(kind));
}

const char* to_string(LayerField field) { return word_of(kFields, field); }

const char* to_string(LayerKind kind) {
  const auto index = static_cast<size_t>(kind);
  return index < kKinds.size() ? kKinds[index].name : "unknown";
}

std::optional<LayerKind> parse_layer_kind(const std::string& word) {
  for (size_t i = 0; i < kKinds.size(); ++i) {
    if (word == kKinds[i].name) return static_cast<LayerKind>(i);
  }
  return std::nullopt;
}

const std::vector<std::string>& layer_kind_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> words;
    words.reserve(kKinds.size());
    for (const LayerTraits& kind : kKinds) words.emplace_back(kind.name);
    return words;
  }();
  return names;
}

uint64_t fingerprint(const std::vector<LayerSpec>& layers) {
  const auto number = [](int value) { return static_cast<uint64_t>(value); };
  uint64_t hash = layers.size();
  for (const LayerSpec& layer : layers) {
    // All fields are named: one that is added has to be decided about here.
    const auto& [kind, name, channels, kernel, stride, padding, groups, bias, p,
                 body, shortcut, where] = layer;
    hash = mix_seed({hash, number(static_cast<int>(kind)), hash_text(name),
                     number(channels), number(kernel), number(stride),
                     number(padding), number(groups), number(bias ? 1 : 0),
                     fingerprint(body), fingerprint(shortcut)});
  }
  return hash;
}

int effective_padding(const LayerSpec& layer) {
  if (layer.padding >= 0) return layer.padding;
  return layer.kind == LayerKind::conv ? layer.kernel / 2 : 0;
}

std::string to_string(const Shape& shape) {
  if (shape.flat) return fmt::format("{}", shape.channels);
  return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

std::vector<LayerInfo> infer_shapes(const std::vector<LayerSpec>& layers,
                                    const Shape& input) {
  std::vector<LayerInfo> infos;
  Shape shape = input;
  for (const LayerSpec& layer : layers) {
    const Walk walk = walk_layer(layer, shape);
    infos.push_back({.name = layer.name,
                     .kind = layer.kind,
                     .output = walk.shape,
                     .parameters = walk.parameters,
                     .flops = walk.flops});
    shape = walk.shape;
  }
  return infos;
}

}  // namespace dtune
