// Means of windows that lie side by side, of channels-last images on the CPU,
// forward and backward. LibTorch's take four times as long where there are few
// channels. One thread. No LibTorch here; one source for all instruction sets,
// as in conv_block.h.
#pragma once

#include <cstdint>
#include <vector>

namespace dtune {

// Of images [height, width, channels]; the window divides height and width.
// Inlined always: see winograd.h.
struct PoolShape {
  int height = 0;
  int width = 0;
  int channels = 0;
  int window = 1;

  [[gnu::always_inline]] int64_t row() const {
    return int64_t{width} * channels;
  }
  // Rows of windows of so many images, and windows in a row.
  [[gnu::always_inline]] int64_t rows(int64_t images) const {
    return images * (height / window);
  }
  [[gnu::always_inline]] int across() const { return width / window; }
};

struct PoolKernels {
  const char* name;

  // y: [images, height / window, width / window, channels].
  void (*mean)(const PoolShape& shape, int64_t images, const float* x,
               float* y);
  // The gradient of x by that of y.
  void (*spread)(const PoolShape& shape, int64_t images, const float* dy,
                 float* dx);
};

// Of the CPU that runs this. Thread-safe.
const PoolKernels& pool_kernels();
// All that this CPU can run, the best first; the last one runs anywhere.
std::vector<const PoolKernels*> runnable_pool_kernels();

}  // namespace dtune
