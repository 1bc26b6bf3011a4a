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
// What a batch norm makes is never written to memory, save the last one's: the
// next convolution makes it, a part of the batch at a time in cache, and so does
// its backward pass. Sums of channels are made of what is in cache likewise.
// So 6 passes over memory are left of 16 for a convolution with its norm, and
// only the convolutions' results are kept for the way back.
std::unique_ptr<SumLayer> make_conv_chain(const std::vector<LayerSpec>& layers,
                                          size_t at, int count, Shape input,
                                          ParameterPool& pool, bool sum_relu);

}  // namespace dtune
