// Batch norm of channels-last images on a GPU with what surrounds it in
// networks, as ../batch_norm.h has it on the CPU: y = relu(x scale + offset +
// addend), each direction in two kernels. No LibTorch here.
//
// All pointers are of the device; x, y and what is shaped as them are [rows,
// channels] of float or bfloat16 and 16 bytes aligned, all else is float.
// Channels are a multiple of 8. Work is given to `stream` and not waited for;
// the same input gives the same bits. Throws Error(trial) where CUDA refuses.
#pragma once

#include <cstdint>

namespace dtune {

struct CudaNormShape {
  int64_t rows = 0;
  int channels = 0;
  bool bfloat16 = false;
};

// What a layer has for itself, of [channels] each.
struct CudaNormWeights {
  const float* weight;
  const float* bias;
  float* mean;  // running; null: stays as it is
  float* variance;
  float* weight_gradient;
  float* bias_gradient;
};

// Memory that the kernels need beside tensors.
struct CudaNormScratch {
  float* sums;         // cuda_norm_sums() floats
  unsigned* finished;  // cuda_norm_counters(), zero before and after
};
int64_t cuda_norm_sums(const CudaNormShape& shape);
int64_t cuda_norm_counters(const CudaNormShape& shape);

// `map` [4, channels] becomes mean, inverse deviation, scale and offset, of the
// batch, which move the running statistics, or of these alone.
void cuda_norm_batch_map(const CudaNormShape& shape, const void* x,
                         const CudaNormWeights& weights, double momentum,
                         double epsilon, const CudaNormScratch& scratch,
                         float* map, void* stream);
void cuda_norm_running_map(const CudaNormShape& shape,
                           const CudaNormWeights& weights, double epsilon,
                           float* map, void* stream);

// y = x scale + offset + addend (null: none), then ReLU; NaN passes.
void cuda_norm_apply(const CudaNormShape& shape, const void* x,
                     const float* map, const void* addend, bool relu, void* y,
                     void* stream);

// Of a result's gradient: where it counts.
struct CudaNormGradient {
  const void* dy;
  bool relu = false;  // counts where the result was not <= 0:
  // The result; null: it is computed from x, as it was without an addend.
  const void* y = nullptr;
};

// Adds to the gradients of weight and bias; `gradient_map` [3, channels] becomes
// what cuda_norm_input_gradient takes. `masked`: null, or becomes dy where it
// counts and 0 elsewhere; may be dy. `training`: the map was one of the batch.
void cuda_norm_gradient_map(const CudaNormShape& shape,
                            const CudaNormGradient& gradient, const void* x,
                            const float* map, const CudaNormWeights& weights,
                            bool training, const CudaNormScratch& scratch,
                            void* masked, float* gradient_map, void* stream);

// dx = dy scale + x slope + offset, and `addend` (null: none; may be dx).
void cuda_norm_input_gradient(const CudaNormShape& shape,
                              const CudaNormGradient& gradient, const void* x,
                              const float* map, const float* gradient_map,
                              const void* addend, void* dx, void* stream);

}  // namespace dtune
