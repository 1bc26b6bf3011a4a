// Convolutions on the CPU as matrix products, forward and backward: the pixels
// that each output reads are gathered (im2col) a block of outputs at a time,
// small enough for the second cache. For what kernels/winograd.h does not have:
// 1x1 convolutions and strided ones.
//
// Where both sides of the weights are wide they are multiplied by one level of
// Strassen's algorithm (strassen.inc): 7 products for 8, and sums that take
// about half of what that saves. In the tests its errors are one to six times
// those of the plain product, 1.6e-6 of the largest result at most. Of an Inf it
// makes NaNs; see `forward`.
//
// Images are [H, W, C] (channels-last). One thread, a few images at a time.
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
  bool strassen = false;  // REQUIRES: has_quarters()

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
  // Whether half of each matrix' columns are whole vectors.
  bool has_quarters() const {
    return tap_group() * channels % 32 == 0 && taps() * channels % 32 == 0 &&
           outputs % 32 == 0;
  }
  // Floats that stand for so many of weights or their gradient.
  [[gnu::always_inline]] int64_t factors_size(int64_t weights) const {
    return strassen ? 7 * weights / 4 : weights;
  }
  // Of transformed weights, with room to make them in, and of their gradient.
  int64_t transformed_size() const;
  int64_t dtransformed_size() const { return factors_size(weights_size()); }
  // Taps that the backward pass gathers at once: all, or one where they are
  // wide enough alone.
  [[gnu::always_inline]] int tap_group() const {
    return taps() * channels <= 640 ? taps() : 1;
  }
};

struct ProductKernels {
  const char* name;

  // weights [O, C, k, k] to what `forward` reads or, with `reversed`, to what
  // `backward` reads; of transformed_size().
  void (*weights)(const ProductShape& shape, const float* weights,
                  bool reversed, float* transformed);

  // x: [images, H, W, C]; y: [images, out_height, out_width, O]; bias: [O] or
  // null; scratch: product_scratch(shape) floats. Returns false where Strassen's
  // algorithm may have turned an Inf into NaNs.
  bool (*forward)(const ProductShape& shape, int64_t images, const float* x,
                  const float* transformed, const float* bias, float* scratch,
                  float* y);

  // Adds to dtransformed, of dtransformed_size(), the gradient of the weights,
  // or sets it if `fresh`: [O, k, k, C] without `strassen`. Sets dx unless it is
  // null (then `transformed` is not read). dy_pitch: floats from a pixel of dy
  // to the next, best product_pitch(O).
  void (*backward)(const ProductShape& shape, int64_t images, const float* x,
                   const float* dy, int dy_pitch, const float* transformed,
                   bool fresh, float* scratch, float* dtransformed, float* dx);
  // Adds what dtransformed holds to dweights [O, C, k, k].
  void (*weights_gradient)(const ProductShape& shape, const float* dtransformed,
                           float* dweights);
};

// Of the CPU that runs this. Thread-safe.
const ProductKernels& product_kernels();
// All that this CPU can run, the best first; the last one runs anywhere.
std::vector<const ProductKernels*> runnable_product_kernels();

// Whether Strassen's algorithm is faster for so many rows (output pixels).
bool product_by_quarters(const ProductShape& shape, int64_t rows);

// Rows of a block at most, forward and backward (more, and never few: each block
// reads and writes the gradient of all weights).
constexpr int kProductRowsForward = 252;
constexpr int kProductRowsBackward = 546;
// Rows of a block of `forward`; floats of scratch.
int product_rows(const ProductShape& shape);
int64_t product_scratch(const ProductShape& shape);
// Rows of a block where at most `room`, a multiple of 14, fit: few blocks, all
// alike, in whole register blocks of rows and of half of them.
[[gnu::always_inline]] inline int64_t even_product_rows(int64_t rows,
                                                        int64_t room) {
  const int64_t blocks = (rows + room - 1) / room;
  return ((rows + blocks - 1) / blocks + 13) / 14 * 14;
}
// From one row to the next of what is read by columns: without powers of two,
// of which the first cache keeps only a few.
[[gnu::always_inline]] inline int product_pitch(int columns) {
  return columns % 128 == 0 ? columns + 16 : columns;
}

}  // namespace dtune
