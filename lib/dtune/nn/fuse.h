// Fast layers that stand for one or several of a list. Each computes what those
// compute, up to rounding, with the same names and order of weights.
#pragma once

#include <vector>

#include "dtune/nn/fast_norm.h"

namespace dtune {

enum class FastKind {
  none,           // the layer itself
  conv_block,     // conv, ReLU, max pool (or pool, then ReLU: the same)
  conv,           // a convolution
  conv_chain,     // convolutions, each with a batch norm and perhaps a ReLU
  norm,           // batch norm and a ReLU behind it, if there is one
  residual_relu,  // a residual and the ReLU behind it
};

struct FastRun {
  FastKind kind = FastKind::none;
  int count = 1;  // layers that it stands for
};

// What stands for layers[at] and those behind it; on a GPU a norm or a
// residual_relu.
// conv_block: 3x3, stride 1, "same" padding, one group, a multiple of 16
// outputs, pool 2x2 of an even image; 1 to 4 or a multiple of 16 input channels.
// conv: one group, multiples of 16 channels and outputs. norm: images, a
// multiple of 16 channels. conv_chain: of these, without biases; in branches of
// residuals alone, for elsewhere every layer is a unit of its own, and so are
// its weights.
FastRun fast_run(const std::vector<LayerSpec>& layers, size_t at,
                 const Shape& input, Fusion fusion, bool in_branch);

bool is_fast_norm(const LayerSpec& layer, const Shape& input);

// One or several of the layers that a list begins with.
struct Stage {
  LayerPtr layer;
  int first;
  int count;
  SumLayer* sums = nullptr;  // the layer, where `sum_relu` is a part of it
};

struct StageOptions {
  Fusion fusion = Fusion::none;
  bool in_branch = false;  // of a residual
  // Of a branch that ends in a batch norm: to its result another one is added,
  // and a ReLU follows. They become a part of the stage that ends the list.
  bool sum_relu = false;
};

// The stage that begins at layers[at]; `shape`, of its input, becomes that of
// its output.
Stage make_stage(const std::vector<LayerSpec>& layers, size_t at, Shape& shape,
                 ParameterPool& pool, const StageOptions& options);

// By ATen, as conv.cc has it. Where the kernels of a fast layer may have spread
// an Inf.
at::Tensor convolve_exactly(const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, int64_t stride,
                            int64_t padding);

// `conv`: the first of the three.
LayerPtr make_conv_block(const LayerSpec& conv, const Shape& input,
                         ParameterPool& pool);

}  // namespace dtune
