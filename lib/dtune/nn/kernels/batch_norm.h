// Batch norm of channels-last images on the CPU with what surrounds it in
// networks, each direction in two passes over memory:
//
//   y = relu(x scale + offset + addend)
//
// ReLU and addend are optional. `rows` pixels of `channels` floats each, a
// multiple of 16. One thread. No LibTorch here; one source for all instruction
// sets, as in conv_block.h.
#pragma once

#include <cstdint>
#include <vector>

namespace dtune {

struct NormRows {
  int64_t rows = 0;
  int channels = 0;
  bool relu = false;
  int pitch = 0;  // from a row of dx to the next; 0: as everywhere, channels
};

// What sums of a gradient are of, each shaped as x.
struct NormGradientRows {
  const float* dy;
  const float* x;
  const float* y;                 // with ReLU dy counts where it is not <= 0
  const float* addend = nullptr;  // to dy; null: none
  // Null or where dy with its addend, as far as it counts, is written; may be
  // either of them.
  float* masked = nullptr;
};

struct NormKernels {
  const char* name;

  // Adds to sums and squares [channels] those of x - shift: without the shift
  // (any value among x) the variance would be a difference of large numbers.
  void (*statistics)(const NormRows& shape, const float* x, const float* shift,
                     double* sums, double* squares);

  // addend: as x, or null. NaN passes.
  void (*apply)(const NormRows& shape, const float* x, const float* scale,
                const float* offset, const float* addend, float* y);

  // Adds to sums and products [channels] those of dy (with its addend, as far
  // as it counts) and of that times x - mean.
  void (*gradient_sums)(const NormRows& shape, const NormGradientRows& of,
                        const float* mean, double* sums, double* products);

  // dx = dy scale + x slope + offset; with ReLU dy counts as above.
  void (*input_gradient)(const NormRows& shape, const float* dy, const float* x,
                         const float* y, const float* scale, const float* slope,
                         const float* offset, float* dx);
};

// Of the CPU that runs this. Thread-safe.
const NormKernels& norm_kernels();
// All that this CPU can run, the best first; the last one runs anywhere.
std::vector<const NormKernels*> runnable_norm_kernels();

}  // namespace dtune
