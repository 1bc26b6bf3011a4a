// Max pooling of channels-last images on a GPU whose windows neither overlap
// nor hang over an edge. No LibTorch here.
//
// Where the largest value was is kept in a byte for each, not in eight. x, dx:
// [images, height, width, channels], y, dy: likewise of the windows, of float or
// bfloat16, 16 bytes aligned; channels are a multiple of 8. Pixels behind the
// last whole window count for nothing. NaN passes. Work is given to `stream`.
// Throws Error(trial) where CUDA refuses.
#pragma once

#include <cstdint>

namespace dtune {

struct CudaPoolShape {
  int64_t images = 0;
  int height = 0;
  int width = 0;
  int channels = 0;
  int window = 2;  // and stride; at most 15
  bool bfloat16 = false;
};

// which: a byte for each of y.
void cuda_max_pool(const CudaPoolShape& shape, const void* x, void* y,
                   uint8_t* which, void* stream);
// Writes all of dx.
void cuda_max_pool_gradient(const CudaPoolShape& shape, const void* dy,
                            const uint8_t* which, void* dx, void* stream);

}  // namespace dtune
