// The fast convolutions of the CPU: by Winograd's algorithm or as matrix
// products, whichever the shape calls for.
#pragma once

#include <memory>

#include "dtune/nn/layer.h"

namespace dtune {

// Whether there is a fast convolution for this layer: one group, multiples of
// 16 channels and outputs.
bool is_fast_conv(const LayerSpec& layer, const Shape& input);

// A convolution without its bias, a part of the batch at a time: an item is an
// image, or a pixel where outputs read one pixel only. Transformed weights are
// in the pool's workspace: one convolution is computed at a time.
class ConvEngine {
 public:
  virtual ~ConvEngine() = default;

  // Items of a batch of so many images.
  virtual int64_t items(int64_t images) const = 0;
  // Of so many items, how many are worked on together in cache; fewer may be
  // slower. REQUIRES: prepare() for this direction.
  virtual int64_t chunk(int64_t items) const = 0;
  // Of an item: pixels (rows of channels) that come in and go out.
  virtual int64_t input_rows() const = 0;
  virtual int64_t output_rows() const = 0;
  // Floats from a row of dy to the next with which backward is fastest.
  virtual int best_pitch() const = 0;

  // Before the forward (backward) calls for so many items by so many workers.
  virtual void prepare(bool backward, int64_t items, size_t workers) = 0;
  // y = conv(x) + bias, which may be null. Workers may be called at the same
  // time.
  virtual void forward(size_t worker, int64_t items, const float* x,
                       const float* bias, float* y) = 0;
  // Keeps the weights' gradient for finish(); sets dx unless it is null.
  // dy_pitch: best_pitch(), or the outputs. `fresh`: the worker's first call
  // since prepare().
  virtual void backward(size_t worker, int64_t items, const float* x,
                        const float* dy, int dy_pitch, bool fresh,
                        float* dx) = 0;
  // Adds what so many workers kept to the weights' gradient.
  virtual void finish(size_t workers) = 0;
};

// Declares the weights. REQUIRES: is_fast_conv(spec, input).
std::unique_ptr<ConvEngine> make_conv_engine(const LayerSpec& spec,
                                             const Shape& input,
                                             ParameterPool& pool);

// The convolution alone, with its bias if it has one.
LayerPtr make_fast_conv(const LayerSpec& spec, const Shape& input,
                        ParameterPool& pool);

}  // namespace dtune
