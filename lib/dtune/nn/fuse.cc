#include "dtune/nn/fuse.h"

#include <utility>

#include "dtune/nn/fast_norm.h"

namespace dtune {
namespace {

bool is_plain_conv(const LayerSpec& layer) {
  return layer.kind == LayerKind::conv && layer.kernel == 3 &&
         layer.stride == 1 && effective_padding(layer) == 1 &&
         layer.groups == 1 && layer.channels % 16 == 0;
}

bool is_plain_pool(const LayerSpec& layer) {
  return layer.kind == LayerKind::max_pool && layer.kernel == 2 &&
         layer.stride == 2 && effective_padding(layer) == 0;
}

bool is_relu(const LayerSpec& layer) { return layer.kind == LayerKind::relu; }

bool is_conv_block(const std::vector<LayerSpec>& layers, size_t at,
                   const Shape& input) {
  if (at + 3 > layers.size() || input.flat) return false;
  const LayerSpec& second = layers[at + 1];
  const LayerSpec& third = layers[at + 2];
  const bool relu_and_pool = (is_relu(second) && is_plain_pool(third)) ||
                             (is_plain_pool(second) && is_relu(third));
  const bool channels_fit = input.channels <= 4 || input.channels % 16 == 0;
  return is_plain_conv(layers[at]) && relu_and_pool && channels_fit &&
         input.height % 2 == 0 && input.width % 2 == 0;
}

// Below 3x3 a tile has more products than the plain convolution.
bool is_winograd(const LayerSpec& layer, const Shape& input) {
  return is_plain_conv(layer) && !input.flat && input.channels % 16 == 0 &&
         input.height >= 3 && input.width >= 3;
}

LayerPtr make_fast(FastRun run, const std::vector<LayerSpec>& layers, size_t at,
                   const Shape& input, ParameterPool& pool, bool fuse) {
  switch (run.kind) {
    case FastKind::conv_block:
      return make_conv_block(layers[at], input, pool);
    case FastKind::winograd:
      return make_winograd_conv(layers[at], input, pool);
    case FastKind::norm:
      return std::make_unique<FastNorm>(layers[at], input, pool,
                                        /*relu=*/run.count > 1);
    case FastKind::residual_relu:
      return make_residual(layers[at], input, pool,
                           {.fuse = fuse, .relu = true});
    case FastKind::none:
      break;
  }
  return make_layer(layers[at], input, pool, fuse);
}

}  // namespace

at::Tensor convolve_exactly(const at::Tensor& x, const Parameter& weight,
                            const Parameter* bias) {
  return at::convolution(x, weight.value, bias ? bias->value : at::Tensor(),
                         {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1);
}

bool is_fast_norm(const LayerSpec& layer, const Shape& input) {
  return layer.kind == LayerKind::batch_norm && !input.flat &&
         input.channels % 16 == 0;
}

FastRun fast_run(const std::vector<LayerSpec>& layers, size_t at,
                 const Shape& input) {
  const LayerSpec& layer = layers[at];
  const bool then_relu = at + 1 < layers.size() && is_relu(layers[at + 1]);
  if (is_conv_block(layers, at, input)) return {FastKind::conv_block, 3};
  if (is_winograd(layer, input)) return {FastKind::winograd, 1};
  if (is_fast_norm(layer, input)) return {FastKind::norm, then_relu ? 2 : 1};
  if (layer.kind == LayerKind::residual && then_relu) {
    return {FastKind::residual_relu, 2};
  }
  return {};
}

Stage make_stage(const std::vector<LayerSpec>& layers, size_t at, Shape& shape,
                 ParameterPool& pool, bool fuse) {
  const FastRun run = fuse ? fast_run(layers, at, shape) : FastRun{};
  Stage stage{make_fast(run, layers, at, shape, pool, fuse),
              static_cast<int>(at), run.count};
  const auto first = layers.begin() + stage.first;
  shape = infer_shapes({first, first + run.count}, shape).back().output;
  return stage;
}

}  // namespace dtune
