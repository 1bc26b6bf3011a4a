// 3x3 convolutions of stride 1 with "same" padding on the CPU, forward and
// backward, by Winograd's F(4x4, 3x3) (Lavin and Gray 2015, arXiv 1509.09308):
// 36 products for 16 outputs where the plain one has 144. One thread, a few
// images at a time.
//
// A tile is 4x4 outputs; what hangs over the image's edge is dropped. Images
// are [H, W, C] (channels-last). The gradient of the weights is the gradient of
// this very algorithm: with U = G w G^T, V = B^T x B and Y = A dy A^T it is
// G^T (sum over tiles of V Y) G.
//
// Rounding: errors of about 1e-6 of the largest output. Inf spreads over its
// tile as NaN; see `forward`.
//
// No LibTorch here. As in conv_block.h, one source for all instruction sets.
#pragma once

#include <cstdint>
#include <vector>

namespace dtune {

// Channels and outputs are multiples of 16. What the kernels call is inlined
// always: of a function with external linkage the linker would keep one copy,
// whatever its instructions.
struct WinogradShape {
  int height = 0;
  int width = 0;
  int channels = 0;
  int outputs = 0;

  [[gnu::always_inline]] int tiles() const {
    return (height + 3) / 4 * ((width + 3) / 4);
  }
  [[gnu::always_inline]] int64_t input_size() const {
    return int64_t{height} * width * channels;
  }
  [[gnu::always_inline]] int64_t output_size() const {
    return int64_t{height} * width * outputs;
  }
  // Of transformed weights and of their gradient: 36 planes, a line of the cache
  // more from one to the next than they have, for powers of two collide there.
  [[gnu::always_inline]] int64_t plane() const {
    return int64_t{channels} * outputs + 16;
  }
  [[gnu::always_inline]] int64_t transformed_size() const {
    return 36 * plane();
  }
  // The convolution that takes dy to dx.
  WinogradShape reversed() const { return {height, width, outputs, channels}; }
};

struct WinogradKernels {
  const char* name;

  // weights [O, C, 3, 3] to what `forward` reads, of transformed_size(): of the
  // convolution itself or, with `reversed`, of the one that takes dy to dx;
  // `shape` is the convolution's own either way.
  void (*weights)(const WinogradShape& shape, const float* weights,
                  bool reversed, float* transformed);

  // x: [images, H, W, C]; y: [images, H, W, O]; bias: [O] or null; scratch:
  // winograd4_scratch(shape) floats. Returns whether the sum of all outputs is
  // a finite number: if not, an Inf may have been turned into NaNs.
  bool (*forward)(const WinogradShape& shape, int64_t images, const float* x,
                  const float* transformed, const float* bias, float* scratch,
                  float* y);

  // Adds to dtransformed, of transformed_size(), or sets it if `fresh`.
  // REQUIRES: images >= 1.
  void (*backward_weights)(const WinogradShape& shape, int64_t images,
                           const float* x, const float* dy, bool fresh,
                           float* scratch, float* dtransformed);
  // Adds what dtransformed holds to dweights [O, C, 3, 3].
  void (*weights_gradient)(const WinogradShape& shape,
                           const float* dtransformed, float* dweights);

  // Where all tiles are worked on together transformed weights need not exist
  // as a whole. REQUIRES: images shape.tiles() <= winograd4_tiles(shape).
  //
  // As `forward` with `weights` [O, C, 3, 3] of the convolution itself;
  // reversed: `shape` is that of the one that takes dy to dx.
  bool (*forward_once)(const WinogradShape& shape, int64_t images,
                       const float* x, const float* weights, bool reversed,
                       const float* bias, float* scratch, float* y);
  // Adds to dweights [O, C, 3, 3].
  void (*gradient_once)(const WinogradShape& shape, int64_t images,
                        const float* x, const float* dy, float* scratch,
                        float* dweights);
};

// Of the CPU that runs this. Thread-safe.
const WinogradKernels& winograd_kernels();
// All that this CPU can run, the best first; the last one runs anywhere.
std::vector<const WinogradKernels*> runnable_winograd_kernels();

// Inputs and outputs of which weights are transformed where they are used.
constexpr int kWinogradBlock = 64;
// Tiles that are worked on together; floats of scratch for them.
int winograd4_tiles(const WinogradShape& shape);
int64_t winograd4_scratch(const WinogradShape& shape);
// From one tile's channels to the next in scratch: without powers of two, of
// which the first cache keeps only a few.
[[gnu::always_inline]] inline int winograd4_row(int channels) {
  return channels % 128 == 0 ? channels + 16 : channels;
}
// Floats of one of the six rows of pixels that a row of tiles reads.
[[gnu::always_inline]] inline int64_t winograd4_band_row(
    const WinogradShape& shape) {
  return int64_t{(shape.width + 3) / 4 * 4 + 2} * shape.channels;
}

}  // namespace dtune
