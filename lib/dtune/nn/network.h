// CNNs built from layer lists, with an explicit forward and backward pass.
//
// Why not torch::nn and autograd: recipes are layer lists, so the backward
// pass is known; written out it reuses buffers, fuses what is adjacent, keeps
// all weights and gradients in one flat tensor each (one optimizer kernel, one
// buffer to reduce), calls back as soon as a layer's gradient is ready, and
// lets a pipeline stage hold several micro-batches in flight. Autograd is the
// oracle in the tests.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "dtune/study/layers.h"

namespace dtune {

// What a pass needs to know besides its input. Dropout masks depend on `seed`,
// the layer and the sample's position alone, not on the pass.
struct PassContext {
  bool training = false;
  uint64_t seed = 0;  // of this batch: mix_seed({trial seed, global step})
};

// What backward needs from a layer's forward; owned by a Tape.
struct Saved {
  std::vector<at::Tensor> tensors;
  std::vector<Saved> children;  // residual: body then shortcut
};

// A layer with weights in its network's flat tensors. Not thread-safe.
class Layer {
 public:
  virtual ~Layer() = default;
  // x: [N, C, H, W] (channels-last in memory) or [N, F] float32.
  // `saved` null: inference, nothing is kept.
  virtual at::Tensor forward(const at::Tensor& x, Saved* saved,
                             const PassContext& context) = 0;
  // dy: gradient of the output; adds to the weights' gradients and returns the
  // gradient of the input, or an undefined tensor if !need_dx.
  virtual at::Tensor backward(const at::Tensor& dy, Saved& saved,
                              bool need_dx) = 0;
};

// A named slice of the flat tensors.
struct ParameterSlice {
  std::string name;  // "conv1.weight"
  int64_t offset = 0;
  std::vector<int64_t> shape;
  bool decays = true;  // false for biases and normalisation: no L2
  int layer = 0;       // index of the top-level layer it belongs to
};

struct BufferSlice {  // running statistics of batch norm
  std::string name;
  int64_t offset = 0;
  std::vector<int64_t> shape;
};

struct NetworkOptions {
  at::Device device = at::kCPU;
  uint64_t init_seed = 0;  // He (fan-in, ReLU) for conv and linear, zero biases
};

// The activations of one batch on their way back.
struct Tape {
  std::vector<Saved> layers;
};

class Network {
 public:
  // REQUIRES: infer_shapes(layers, input) passed.
  Network(std::vector<LayerSpec> layers, const Shape& input,
          const NetworkOptions& options);
  ~Network();
  Network(Network&&) noexcept;

  // x: [N, C, H, W] float32, channels-last. Returns logits [N, classes].
  at::Tensor forward(const at::Tensor& x, Tape* tape,
                     const PassContext& context);

  // Called after the backward of top-level layer `layer`: its gradients are
  // final (layers come in reverse order).
  using GradientReady = std::function<void(int layer)>;

  // Adds to gradients(). Returns dx if need_dx, else undefined.
  at::Tensor backward(const at::Tensor& dlogits, Tape& tape,
                      bool need_dx = false,
                      const GradientReady& ready = nullptr);

  at::Tensor& weights();    // [P] float32
  at::Tensor& gradients();  // [P] float32
  at::Tensor& buffers();    // [B] float32
  const std::vector<ParameterSlice>& parameter_slices() const;
  const std::vector<BufferSlice>& buffer_slices() const;
  int64_t flops_per_sample() const;  // forward

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtune
