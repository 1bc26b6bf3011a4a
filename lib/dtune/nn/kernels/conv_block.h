// Fast CPU kernels for the block that small CNNs consist of:
//
//   y = max_pool_2x2(relu(conv_3x3(x) + bias)),  stride 1, "same" padding
//
// One thread, one image (or a few) at a time, everything in cache. Two facts
// are used beyond a plain convolution: pooling keeps one output in four, so the
// convolution's outputs are never written; and the gradient that comes back is
// zero at three outputs of four and wherever ReLU was off, so the backward pass
// visits only the rest (about an eighth).
//
// No LibTorch here: pointers and sizes. The table is filled by one source file
// compiled for several instruction sets; the best that the CPU has is chosen
// when the program runs.
#pragma once

#include <cstdint>
#include <vector>

namespace dtune {

// Height and width are even; channels are 1 to 4 ("narrow") or a multiple of
// 16 ("wide"); outputs are a multiple of 16.
struct BlockShape {
  int height = 0;
  int width = 0;
  int channels = 0;
  int outputs = 0;

  bool narrow() const { return channels <= 4; }
  int tiles() const { return (height / 2) * (width / 2); }  // pooled pixels
  // A padded image is [planes, H + 2, W + 2, lanes]: the image in a zero frame,
  // wide ones cut into planes of 16 channels, half of the first cache each for
  // 14x14 pixels.
  int lanes() const { return narrow() ? channels : 16; }
  int padded_row() const { return (width + 2) * lanes(); }
  int64_t plane_size() const { return int64_t{height + 2} * padded_row(); }
  int64_t padded_size() const { return channels / lanes() * plane_size(); }
  int64_t input_size() const { return int64_t{height} * width * channels; }
  int64_t output_size() const { return int64_t{tiles()} * outputs; }
};

// Which of its four inputs a pooled output took (row-major; ties: the first),
// or that ReLU stopped it.
inline constexpr uint8_t kDead = 4;

// The outputs of one channel whose gradient is not zero.
struct Active {
  int32_t offset;  // of the 3x3 patch's first float in each padded plane
  float gradient;
};

// Tensors of one image, or of several in a row:
//   padded: see BlockShape
//   y, dy: [H / 2, W / 2, O]; choice: likewise
struct ConvKernels {
  const char* name;

  // taps: [9 C, O], rows in the order (row, column, channel) of the patch.
  void (*narrow_forward)(const BlockShape& shape, const float* padded,
                         const float* taps, const float* bias, float* y,
                         uint8_t* choice);
  // dtaps: [9 C, O], dbias: [O]; both are added to.
  void (*narrow_backward)(const BlockShape& shape, const float* padded,
                          const float* dy, const uint8_t* choice, float* dtaps,
                          float* dbias);

  // Winograd's F(2x2, 3x3) (Lavin and Gray 2015, arXiv 1509.09308): its 2x2
  // output tile is what the pool reduces. `images` padded images in a row.
  // transformed: [16, C, O]; scratch: winograd_scratch() floats.
  void (*wide_forward)(const BlockShape& shape, int images, const float* padded,
                       const float* transformed, const float* bias,
                       float* scratch, float* y, uint8_t* choice);

  // actives: [O, tiles()], of which counts[O] are filled; one image.
  // dtaps: [O, 9, C], added to.
  void (*wide_backward_weights)(const BlockShape& shape, const float* padded,
                                const Active* actives, const int* counts,
                                float* dtaps);
  // taps: [O, 9, C]; dpadded is added to.
  void (*wide_backward_input)(const BlockShape& shape, const Active* actives,
                              const int* counts, const float* taps,
                              float* dpadded);
};

// Of the CPU that runs this. Thread-safe.
const ConvKernels& conv_kernels();
// All that this CPU can run, the best first; the last one runs anywhere.
std::vector<const ConvKernels*> runnable_conv_kernels();

// Floats of wide_forward's scratch; tiles that it holds.
int64_t winograd_scratch(const BlockShape& shape);
int winograd_tiles(const BlockShape& shape);

// weights: [O, C, 3, 3] -> [16, C, O].
void winograd_weights(const BlockShape& shape, const float* weights,
                      float* transformed);

// Copies an image [H, W, C] into its zero frame, and out of it. The frame of
// `padded` must already be zero.
void pad_image(const BlockShape& shape, const float* x, float* padded);
void unpad_image(const BlockShape& shape, const float* padded, float* x);

// Sorts one image's gradients by output channel, without those that are zero
// by pooling and ReLU; adds them up in dbias [O].
void find_actives(const BlockShape& shape, const float* dy,
                  const uint8_t* choice, Active* actives, int* counts,
                  float* dbias);

// The gradient of the convolution's own output, [H, W, O], in full.
void expand_gradient(const BlockShape& shape, const float* dy,
                     const uint8_t* choice, float* dense);

}  // namespace dtune
