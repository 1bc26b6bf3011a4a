// Max pooling on CUDA devices by the kernels of kernels/cuda/pool.h.
#pragma once

#include <utility>

#include <ATen/ATen.h>

namespace dtune {

// Whether they compute it: x is on a GPU, and windows of that size and stride,
// without padding, are what they have. False in builds without them.
bool is_gpu_pool(const at::Tensor& x, int64_t window, int64_t stride,
                 int64_t padding);

// REQUIRES: is_gpu_pool(x, window, ...).
// y, and where in its window each of it comes from.
std::pair<at::Tensor, at::Tensor> gpu_max_pool(const at::Tensor& x,
                                               int64_t window);
// sizes: of x.
at::Tensor gpu_max_pool_gradient(const at::Tensor& dy, const at::Tensor& which,
                                 at::IntArrayRef sizes, int64_t window);

}  // namespace dtune
