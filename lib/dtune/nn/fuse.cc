#include "dtune/nn/fuse.h"

#include <utility>

#include "dtune/nn/conv_chain.h"
#include "dtune/nn/fast_conv.h"
#include "dtune/nn/gpu_norm.h"

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

std::unique_ptr<SumLayer> make_norm(const LayerSpec& spec, const Shape& input,
                                    ParameterPool& pool, Fusion fusion,
                                    bool relu) {
  if (fusion == Fusion::gpu) return make_gpu_norm(spec, input, pool, relu);
  return std::make_unique<FastNorm>(spec, input, pool, relu);
}

LayerPtr make_fast(FastRun run, const std::vector<LayerSpec>& layers, size_t at,
                   const Shape& input, ParameterPool& pool, Fusion fusion) {
  switch (run.kind) {
    case FastKind::conv_block:
      return make_conv_block(layers[at], input, pool);
    case FastKind::conv:
      return make_fast_conv(layers[at], input, pool);
    case FastKind::conv_chain:
      return make_conv_chain(layers, at, run.count, input, pool,
                             /*sum_relu=*/false);
    case FastKind::norm:
      return make_norm(layers[at], input, pool, fusion,
                       /*relu=*/run.count > 1);
    case FastKind::residual_relu:
      return make_residual(layers[at], input, pool,
                           {.fusion = fusion, .relu = true});
    case FastKind::none:
      break;
  }
  return make_layer(layers[at], input, pool, fusion);
}

// The stage whose last layer is a batch norm, with a sum and a ReLU behind it.
std::unique_ptr<SumLayer> make_sum(FastRun run,
                                   const std::vector<LayerSpec>& layers,
                                   size_t at, const Shape& input,
                                   ParameterPool& pool, Fusion fusion) {
  if (run.kind == FastKind::norm) {
    return make_norm(layers[at], input, pool, fusion, /*relu=*/true);
  }
  return make_conv_chain(layers, at, run.count, input, pool, /*sum_relu=*/true);
}

}  // namespace

at::Tensor convolve_exactly(const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, int64_t stride,
                            int64_t padding) {
  return at::convolution(x, weight, bias, {stride, stride}, {padding, padding},
                         {1, 1}, false, {0, 0}, 1);
}

bool is_fast_norm(const LayerSpec& layer, const Shape& input) {
  return layer.kind == LayerKind::batch_norm && !input.flat &&
         input.channels % 16 == 0;
}

FastRun fast_run(const std::vector<LayerSpec>& layers, size_t at,
                 const Shape& input, Fusion fusion, bool in_branch) {
  if (fusion == Fusion::none) return {};
  const LayerSpec& layer = layers[at];
  const bool then_relu = at + 1 < layers.size() && is_relu(layers[at + 1]);
  if (fusion == Fusion::cpu) {
    const int chain = in_branch ? conv_chain_length(layers, at, input) : 0;
    if (chain > 0) return {FastKind::conv_chain, chain};
    if (is_conv_block(layers, at, input)) return {FastKind::conv_block, 3};
    if (is_fast_conv(layer, input)) return {FastKind::conv, 1};
  }
  if (is_fast_norm(layer, input)) return {FastKind::norm, then_relu ? 2 : 1};
  if (layer.kind == LayerKind::residual && then_relu) {
    return {FastKind::residual_relu, 2};
  }
  return {};
}

Stage make_stage(const std::vector<LayerSpec>& layers, size_t at, Shape& shape,
                 ParameterPool& pool, const StageOptions& options) {
  const FastRun run =
      fast_run(layers, at, shape, options.fusion, options.in_branch);
  Stage stage{nullptr, static_cast<int>(at), run.count};
  if (options.sum_relu &&
      at + static_cast<size_t>(run.count) == layers.size()) {
    auto layer = make_sum(run, layers, at, shape, pool, options.fusion);
    stage.sums = layer.get();
    stage.layer = std::move(layer);
  } else {
    stage.layer = make_fast(run, layers, at, shape, pool, options.fusion);
  }
  const auto first = layers.begin() + stage.first;
  shape = infer_shapes({first, first + run.count}, shape).back().output;
  return stage;
}

}  // namespace dtune
