// Convolutions that are each followed by a batch norm, on the CPU.
#pragma once

#include <memory>
#include <vector>

#include "dtune/nn/fast_norm.h"

namespace dtune {

// How many layers from layers[at] on are such a chain: a fast convolution
// without a bias, a batch norm and a ReLU or none, once or more. 0: none.
int conv_chain_length(const std::vector<LayerSpec>& layers, size_t at,
                      const Shape& input);

// The first `count` of layers[at] and those behind it, which are a chain.
// `sum_relu`: there is no ReLU at its end, but one of the sum.
//
// The result of a batch norm is never written to memory, save the last one's:
// the next convolution computes it, a part of the batch at a time in cache, and
// so does its backward pass. The sums over channels are of what is in cache
// too. A convolution with its norm reads or writes whole tensors 6 times where
// separate layers do 16 times, and only the convolutions' results are kept for
// the backward pass.
std::unique_ptr<SumLayer> make_conv_chain(const std::vector<LayerSpec>& layers,
                                          size_t at, int count, Shape input,
                                          ParameterPool& pool, bool sum_relu);

}  // namespace dtune
