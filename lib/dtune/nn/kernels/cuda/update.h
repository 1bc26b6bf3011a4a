// Updates of weights on a GPU, each in one pass over memory. No LibTorch here.
//
// Tensors are [rows, count] float32 on the device, a training in each row, and
// change in place; gradients are zero afterwards. Numbers are [rows] each. Work
// is given to `stream`. Throws Error(trial) where CUDA refuses.
#pragma once

#include <cstdint>

namespace dtune {

struct CudaUpdateTensors {
  int64_t rows = 1;
  int64_t count = 0;
  float* weights;
  float* gradients;
  float* first;
  float* second;    // Adam's; else null
  const float* l2;  // of each weight
};

// What gradients are multiplied with: gradient_scale, and what takes those that
// are longer than clip_norm down to it (update_rule.h).
struct CudaUpdateScale {
  const float* gradient_scale;
  const float* clip_norm;  // null: they are not clipped
  const float* norms;      // of the gradients
  float clip_epsilon = 0;
};

// v = momentum v + (g + l2 w); w += own g + carried v.
struct CudaSgd {
  const float* momentum;
  const float* own;
  const float* carried;
};
void cuda_sgd(const CudaUpdateTensors& tensors, const CudaUpdateScale& scale,
              const CudaSgd& numbers, void* stream);

// As fused_update.cc's kAdam has them, in that order.
struct CudaAdam {
  const float* coupled;    // part of the decay that joins the gradient
  const float* decoupled;  // part of it that is added to the weight
  const float* keep1;
  const float* new1;
  const float* keep2;
  const float* new2;
  const float* root;
  const float* rate;
  float epsilon = 0;
};
void cuda_adam(const CudaUpdateTensors& tensors, const CudaUpdateScale& scale,
               const CudaAdam& numbers, void* stream);

}  // namespace dtune
