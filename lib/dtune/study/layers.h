// Network architectures as data: what a recipe's `layers:` says and what the
// names of the zoo expand to. No LibTorch: `validate` and `plan` check shapes
// and count parameters with this alone; nn builds from the same list.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtune/base/error.h"

namespace dtune {

enum class LayerKind {
  conv,    // 2-D convolution: channels, kernel, stride, padding, groups
  linear,  // channels = output features; flattens its input
  batch_norm,
  group_norm,  // groups
  relu,
  gelu,
  tanh,
  max_pool,         // kernel, stride, padding
  avg_pool,         // kernel, stride, padding
  global_avg_pool,  // [C, H, W] -> [C]
  flatten,          // [C, H, W] -> [C H W]
  dropout,          // p
  residual,         // y = body(x) + shortcut(x); an empty shortcut is x
};

// What recipes set of a layer.
enum class LayerField {
  channels,
  kernel,
  stride,
  padding,
  groups,
  bias,
  p,
  body,
  shortcut
};

// A kind of layers in recipes. layers.cc has the table, with a row for each.
struct LayerTraits {
  const char* name;                    // "max_pool"
  std::span<const LayerField> fields;  // in a recipe's order
  std::optional<LayerField> main{};    // what a short form gives: `conv: 32`
  int kernel = 0;                      // where a recipe names none
  bool steps_by_kernel = false;        // the stride, where it names none
};
const LayerTraits& traits_of(LayerKind kind);

const char* to_string(LayerField field);  // as in a recipe
const char* to_string(LayerKind kind);    // likewise: "max_pool"
std::optional<LayerKind> parse_layer_kind(const std::string& word);
const std::vector<std::string>& layer_kind_names();

// One layer; plain data. Fields that a kind does not use keep their defaults.
struct LayerSpec {
  LayerKind kind = LayerKind::relu;
  std::string name{};  // unique; e.g. "conv1"; prefixes its weights' names
  int channels = 0;    // output channels or features
  int kernel = 0;
  int stride = 1;
  int padding = -1;  // -1: kernel / 2 of a conv ("same" for odd kernels of
                     // stride 1), 0 of a pool; expand_model fills it in
  int groups = 1;
  bool bias = true;
  double p = -1;                      // dropout; -1: the recipe's model.dropout
  std::vector<LayerSpec> body{};      // residual
  std::vector<LayerSpec> shortcut{};  // residual
  std::string where{};  // "recipe.yaml:12:5" or "", for error texts
};

// Of an architecture: equal for equal lists of layers, and the same in all
// versions, since checkpoints hold it. Fields that change no weight's shape or
// meaning (p, where) do not count.
uint64_t fingerprint(const std::vector<LayerSpec>& layers);

// The padding that a convolution or pool has: its own or what -1 stands for.
int effective_padding(const LayerSpec& layer);

// One sample's shape; height = width = 1 and flat after flatten/linear.
struct Shape {
  int channels = 0;
  int height = 1;
  int width = 1;
  bool flat = false;

  int64_t elements() const { return int64_t{channels} * height * width; }
  bool operator==(const Shape&) const = default;
};

std::string to_string(const Shape& shape);  // "64x7x7" or "128"

struct ModelSpec {
  std::string arch = "cnn-small";  // ignored where layers is not empty
  int width = 0;         // channels of the first stage (wide-resnet: the
                         // widening factor k of WRN-n-k); 0: the default
  int depth = 0;         // wide-resnet: n = 10, 16, 22, 28, ...; 0: 16
  double dropout = 0.0;  // of every dropout layer that names no p of its own
  std::vector<LayerSpec> layers;
};

// Names that expand_model knows, in the order that help shows them.
const std::vector<std::string>& zoo_names();

// The layer list of a model that ends in `classes` logits. Sets p of every
// dropout layer, all paddings, and gives unnamed layers names: kind and number
// among the layers of its kind ("conv1", "dropout2").
// `layers:` of a user get a final linear layer if they do not end in one with
// `classes` outputs. Throws Error(config): unknown arch with "did you mean".
std::vector<LayerSpec> expand_model(const ModelSpec& model, const Shape& input,
                                    int classes);

// What a layer makes of its input.
struct LayerInfo {
  std::string name;
  LayerKind kind;
  Shape output;
  int64_t parameters = 0;  // trained numbers
  // Forward, one sample, a multiply-add counts two; convolutions and linear
  // layers alone (what remains is bound by memory, not by arithmetic).
  int64_t flops = 0;
};

// Output shapes of all layers (a residual is one entry). Throws Error(config)
// with the layer's place and name: "recipe.yaml:12:5: layer 'conv3': kernel 5
// does not fit its input 64x3x3 (use padding: 2 or a smaller kernel)".
std::vector<LayerInfo> infer_shapes(const std::vector<LayerSpec>& layers,
                                    const Shape& input);

}  // namespace dtune
