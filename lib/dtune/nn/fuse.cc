#include "dtune/nn/fuse.h"

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

}  // namespace

bool is_conv_block(const std::vector<LayerSpec>& layers, size_t at,
                   const Shape& input) {
  if (at + kConvBlockLayers > layers.size() || input.flat) return false;
  const LayerSpec& second = layers[at + 1];
  const LayerSpec& third = layers[at + 2];
  const bool relu_and_pool = (is_relu(second) && is_plain_pool(third)) ||
                             (is_plain_pool(second) && is_relu(third));
  const bool channels_fit = input.channels <= 4 || input.channels % 16 == 0;
  return is_plain_conv(layers[at]) && relu_and_pool && channels_fit &&
         input.height % 2 == 0 && input.width % 2 == 0;
}

}  // namespace dtune
