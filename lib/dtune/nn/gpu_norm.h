// Batch norm with what surrounds it, on CUDA devices.
#pragma once

#include <memory>

#include "dtune/nn/fast_norm.h"

namespace dtune {

// Whether this build has it: with a CUDA LibTorch and a compiler for CUDA.
bool has_gpu_norm();

// y = relu(batch_norm(x) + addend) by the kernels of kernels/cuda/norm.h; ReLU
// and addend are optional; float32 or bfloat16. REQUIRES: has_gpu_norm(),
// is_fast_norm(spec, input).
std::unique_ptr<SumLayer> make_gpu_norm(const LayerSpec& spec,
                                        const Shape& input, ParameterPool& pool,
                                        bool relu);

}  // namespace dtune
