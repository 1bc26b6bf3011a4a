// Convolutions on the CPU as matrix products, forward and backward: the pixels
// that each output reads are gathered (im2col) a block of outputs at a time,
// small enough for the second cache. For what kernels/winograd.h does not have:
// 1x1 convolutions and strided ones.
//
// Images are [H, W, C] (channels-last). One thread, a few images at a time. The
// products are those of the plain convolution, so that NaN and Inf go where
// they go there.
//
// No LibTorch here. As in conv_block.h, one source for all instruction sets.
#pragma once

#include <cstdint>
#include <vector>

namespace dtune {

// Channels and outputs are multiples of 16. Inlined always: see winograd.h.
struct ProductShape {
  int height = 0;
  int width = 0;
  int channels = 0;
  int outputs = 0;
  int kernel = 1;
  int stride = 1;
  int padding = 0;

  [[gnu::always_inline]] int out_height() const {
    return (height + 2 * padding - kernel) / stride + 1;
  }
  [[gnu::always_inline]] int out_width() const {
    return (width + 2 * padding - kernel) / stride + 1;
  }
  // Whether x, as it is, has the rows that the outputs read.
  [[gnu::always_inline]] bool is_product() const {
    return kernel == 1 && stride == 1 && padding == 0;
  }
  [[gnu::always_inline]] int taps() const { return kernel * kernel; }
  [[gnu::always_inline]] int64_t input_size() const {
    return int64_t{height} * width * channels;
  }
  // Rows of the matrices.
  [[gnu::always_inline]] int64_t pixels() const {
    return int64_t{out_height()} * out_width();
  }
  [[gnu::always_inline]] int64_t output_size() const {
    return pixels() * outputs;
  }
  [[gnu::always_inline]] int64_t weights_size() const {
    return int64_t{taps()} * channels * outputs;
  }
  // Taps that the backward pass gathers at once: all, or one where they are
  // wide enough alone.
  [[gnu::always_inline]] int tap_group() const {
    return taps() * channels <= 640 ? taps() : 1;
  }
};

struct ProductKernels {
  const char* name;

  // weights [O, C, k, k] to what `forward` reads or, with `reversed`, to what
  // `backward` reads; of weights_size().
  void (*weights)(const ProductShape& shape, const float* weights,
                  bool reversed, float* transformed);

  // x: [images, H, W, C]; y: [images, out_height, out_width, O]; bias: [O] or
  // null; scratch: product_scratch(shape) floats.
  void (*forward)(const ProductShape& shape, int64_t images, const float* x,
                  const float* transformed, const float* bias, float* scratch,
                  float* y);

  // Adds to dtransformed [O, k, k, C] the gradient of the weights; sets dx
  // unless it is null (then `transformed` is not read). dy_pitch: floats from a
  // pixel of dy to the next, best product_pitch(O).
  void (*backward)(const ProductShape& shape, int64_t images, const float* x,
                   const float* dy, int dy_pitch, const float* transformed,
                   float* scratch, float* dtransformed, float* dx);
  // Adds what dtransformed holds to dweights [O, C, k, k].
  void (*weights_gradient)(const ProductShape& shape, const float* dtransformed,
                           float* dweights);
};

// Of the CPU that runs this. Thread-safe.
const ProductKernels& product_kernels();
// All that this CPU can run, the best first; the last one runs anywhere.
std::vector<const ProductKernels*> runnable_product_kernels();

// Rows (output pixels) of a block, forward and backward; floats of scratch.
int product_rows(const ProductShape& shape);
int product_rows_backward(const ProductShape& shape);
int64_t product_scratch(const ProductShape& shape);
// From one row to the next of what is read by columns: without powers of two,
// of which the first cache keeps only a few.
[[gnu::always_inline]] inline int product_pitch(int columns) {
  return columns % 128 == 0 ? columns + 16 : columns;
}

}  // namespace dtune
