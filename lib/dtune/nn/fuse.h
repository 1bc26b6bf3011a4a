// Runs of layers that one fast layer can stand for.
#pragma once

#include <vector>

#include "dtune/nn/layer.h"

namespace dtune {

// Whether conv, ReLU and max pool (or pool, then ReLU: the same) at layers[at]
// can be one ConvBlock on the CPU: 3x3, stride 1, "same" padding, one group;
// pool 2x2 of an even image; 1 to 4 or a multiple of 16 input channels, a
// multiple of 16 output channels.
bool is_conv_block(const std::vector<LayerSpec>& layers, size_t at,
                   const Shape& input);
inline constexpr int kConvBlockLayers = 3;

// `conv`: the first of the three. Computes what the three compute, up to
// rounding.
LayerPtr make_conv_block(const LayerSpec& conv, const Shape& input,
                         ParameterPool& pool);

}  // namespace dtune
