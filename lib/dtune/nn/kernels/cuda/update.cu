#include <algorithm>

#include "dtune/nn/kernels/cuda/launch.h"
#include "dtune/nn/kernels/cuda/update.h"

namespace dtune {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 2112;

dim3 grid_of(const CudaUpdateTensors& tensors) {
  const int64_t useful = (tensors.count + kThreads - 1) / kThreads;
  return {static_cast<unsigned>(std::clamp<int64_t>(useful, 1, kMostBlocks)),
          static_cast<unsigned>(tensors.rows)};
}

__device__ float factor_of(const CudaUpdateScale& scale, unsigned row) {
  const float factor = scale.gradient_scale[row];
  if (scale.clip_norm == nullptr) return factor;
  const float clip =
      scale.clip_norm[row] / (scale.norms[row] + scale.clip_epsilon);
  return factor * (clip > 1 ? 1 : clip);  // NaN stays
}

// Calls with the place of each weight of the row that is this thread's.
template <typename Function>
__device__ void for_each_weight(const CudaUpdateTensors& t,
                                const Function& function) {
  const int64_t from = blockIdx.y * t.count;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < t.count;
       i += step) {
    function(from + i);
  }
}

__global__ void sgd(CudaUpdateTensors t, CudaUpdateScale scale, CudaSgd by) {
  const unsigned row = blockIdx.y;
  const float factor = factor_of(scale, row);
  const float momentum = by.momentum[row];
  const float own = by.own[row];
  const float carried = by.carried[row];
  for_each_weight(t, [&](int64_t at) {
    const float w = t.weights[at];
    const float g = t.gradients[at] * factor + t.l2[at] * w;
    const float v = momentum * t.first[at] + g;
    t.first[at] = v;
    t.weights[at] = w + own * g + carried * v;
    t.gradients[at] = 0;
  });
}

__global__ void adam(CudaUpdateTensors t, CudaUpdateScale scale, CudaAdam by) {
  const unsigned row = blockIdx.y;
  const float factor = factor_of(scale, row);
  const float coupled = by.coupled[row];
  const float decoupled = by.decoupled[row];
  const float keep1 = by.keep1[row];
  const float new1 = by.new1[row];
  const float keep2 = by.keep2[row];
  const float new2 = by.new2[row];
  const float root = by.root[row];
  const float rate = by.rate[row];
  for_each_weight(t, [&](int64_t at) {
    const float w = t.weights[at];
    const float decay = t.l2[at] * w;
    const float g = t.gradients[at] * factor + coupled * decay;
    const float m = keep1 * t.first[at] + new1 * g;
    const float s = keep2 * t.second[at] + new2 * g * g;
    t.first[at] = m;
    t.second[at] = s;
    t.weights[at] =
        w + decoupled * decay + rate * (m / (sqrtf(s) * root + by.epsilon));
    t.gradients[at] = 0;
  });
}

}  // namespace

void cuda_sgd(const CudaUpdateTensors& tensors, const CudaUpdateScale& scale,
              const CudaSgd& numbers, void* stream) {
  sgd<<<grid_of(tensors), kThreads, 0, as_stream(stream)>>>(tensors, scale,
                                                            numbers);
  check_launch("update");
}

void cuda_adam(const CudaUpdateTensors& tensors, const CudaUpdateScale& scale,
               const CudaAdam& numbers, void* stream) {
  adam<<<grid_of(tensors), kThreads, 0, as_stream(stream)>>>(tensors, scale,
                                                             numbers);
  check_launch("update");
}

}  // namespace dtune
