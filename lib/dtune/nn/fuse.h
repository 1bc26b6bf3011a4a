// Fast layers of the CPU that stand for one or several of a list. Each computes
// what those compute, up to rounding, with the same names and order of weights.
#pragma once

#include <vector>

#include "dtune/nn/layer.h"

namespace dtune {

enum class FastKind {
  none,           // the layer itself
  conv_block,     // conv, ReLU, max pool (or pool, then ReLU: the same)
  winograd,       // a convolution
  norm,           // batch norm and a ReLU behind it, if there is one
  residual_relu,  // a residual and the ReLU behind it
};

struct FastRun {
  FastKind kind = FastKind::none;
  int count = 1;  // layers that it stands for
};

// What stands for layers[at] and those behind it.
// Convolutions: 3x3, stride 1, "same" padding, one group, a multiple of 16
// outputs. conv_block: pool 2x2 of an even image; 1 to 4 or a multiple of 16
// input channels. winograd: a multiple of 16 input channels, images of 3x3 or
// more. norm: images, a multiple of 16 channels.
FastRun fast_run(const std::vector<LayerSpec>& layers, size_t at,
                 const Shape& input);

bool is_fast_norm(const LayerSpec& layer, const Shape& input);

// One or several of the layers that a list begins with.
struct Stage {
  LayerPtr layer;
  int first;
  int count;
};

// The stage that begins at layers[at]; `shape`, of its input, becomes that of
// its output. `fuse`: as NetworkOptions::fuse, and what it needs is there.
Stage make_stage(const std::vector<LayerSpec>& layers, size_t at, Shape& shape,
                 ParameterPool& pool, bool fuse);

// By ATen, as conv.cc has it: 3x3, stride 1, "same" padding. Where the kernels
// of a fast layer may have spread an Inf.
at::Tensor convolve_exactly(const at::Tensor& x, const Parameter& weight,
                            const Parameter* bias);

// `conv`: the first of the three.
LayerPtr make_conv_block(const LayerSpec& conv, const Shape& input,
                         ParameterPool& pool);
LayerPtr make_winograd_conv(const LayerSpec& spec, const Shape& input,
                            ParameterPool& pool);

}  // namespace dtune
