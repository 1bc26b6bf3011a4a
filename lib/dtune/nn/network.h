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
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "dtune/study/layers.h"

namespace dtune {

// What one of several networks that are computed as one (fused_network.h) has
// for itself in a pass.
struct OwnPass {
  uint64_t seed = 0;                        // as PassContext::seed
  std::map<std::string, double> dropout{};  // p by the layer's name
};

// What a pass needs to know besides its input. Dropout masks depend on `seed`,
// the layer's name and the sample's position in the batch alone, so that a
// batch cut into micro-batches, over ranks or over pipeline stages is masked as
// a whole one: with a part comes its place in the batch.
struct PassContext {
  bool training = false;
  uint64_t seed = 0;  // of this batch: mix_seed({trial seed, global step})
  int64_t first_sample = 0;  // position of x's first row in the batch
  // The same pass was made before, without a tape: batch norm's running
  // statistics have seen it.
  bool repeated = false;
  // Of a fused network, in place of `seed`: for each network in it.
  std::span<const OwnPass> each{};
  // In place of all seeds, on the device: for each dropout layer, by its name,
  // what batch_mask_keys (mask.h) made of them.
  std::map<std::string, at::Tensor> mask_keys{};
};

// What backward needs from a layer's forward; owned by a Tape.
struct Saved {
  std::vector<at::Tensor> tensors;
  std::vector<int64_t> input_shape;  // layers that reshape
  bool training = false;             // batch norm: whose statistics it used
  at::Tensor gradient_sums;          // EndNorm::sums
  std::vector<Saved> children;       // residual: body then shortcut
};

// The batch norm and the ReLU that a layer ends in. The layer behind it has the
// gradient of its result in cache, a part at a time, as it computes it: there
// the sums cost less than a pass over memory.
struct EndNorm {
  at::Tensor x;     // what the norm read; undefined: the layer ends otherwise
  at::Tensor mean;  // [C]
  // Becomes the sums over pixels of dy and of dy (x - mean), [2, C] float64,
  // where dy is zero as far as the ReLU is off.
  at::Tensor* sums = nullptr;
};

// Where the gradient of a layer's input goes.
struct GradientTarget {
  at::Tensor onto;  // what it is added to, in place; undefined: nothing
  EndNorm before;   // of the layer whose result the input is
};

// A layer with weights in its network's flat tensors. Not thread-safe.
class Layer {
 public:
  virtual ~Layer() = default;
  // x: [N, C, H, W] (channels-last in memory) or [N, F]; of the network's
  // `compute` type, as the result, dy and what backward returns.
  // `saved` null: inference, nothing is kept.
  virtual at::Tensor forward(const at::Tensor& x, Saved* saved,
                             const PassContext& context) = 0;
  // dy: gradient of the output, shaped as forward's result; adds to the
  // weights' gradients and returns the gradient of the input, or an undefined
  // tensor if !need_dx. Uses `saved` up: once for each forward.
  virtual at::Tensor backward(const at::Tensor& dy, Saved& saved,
                              bool need_dx) = 0;

  // As backward, which returns target.onto where there is one. May make the
  // sums of target.before.
  virtual at::Tensor backward_to(const at::Tensor& dy, Saved& saved,
                                 const GradientTarget& target) {
    at::Tensor dx = backward(dy, saved, /*need_dx=*/true);
    if (!target.onto.defined()) return dx;
    return at::Tensor(target.onto).add_(dx);
  }
  // Where the layer behind may leave sums that backward then uses.
  virtual EndNorm end_norm(Saved& /*saved*/) { return {}; }
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
  // Conv and linear: He et al. 2015 (arXiv 1502.01852), fan-in, uniform in
  // +-sqrt(6 / fan_in), keyed by the seed and the layer's name; zero biases.
  uint64_t init_seed = 0;
  // Whether the weights are filled so; else they start as zeros.
  bool initialize = true;
  // kFloat or kBFloat16: of activations, and of convolutions and products, with
  // float32 weights, gradients and normalisation (Micikevicius et al. 2017,
  // arXiv 1710.03740; bfloat16 needs no scaled loss: Kalamkar et al. 2019,
  // arXiv 1905.12322). What goes in and comes out is float32.
  at::ScalarType compute = at::kFloat;
  // Lets one fast layer stand for several (fuse.h), on the CPU in float32 only;
  // the results differ by rounding. Names, slices and seeds are the same either
  // way.
  bool fuse = true;
};

// The activations of one (micro-)batch on their way back: filled by forward,
// used up by backward. Several may be in flight for one network; use each again
// for the next batch, then its buffers are used again too.
struct Tape {
  std::vector<Saved> layers;
};

// Top-level layers that a network on this device computes as one: where each
// such unit begins, ascending from 0. A network cut between units computes what
// the whole one does, with the same names, weights and masks.
std::vector<int> network_units(const std::vector<LayerSpec>& layers,
                               const Shape& input,
                               const NetworkOptions& options);

// A network of layers that follow each other. Not thread-safe. Same machine,
// same inputs and one thread: the same bits.
class Network {
 public:
  // REQUIRES: infer_shapes(layers, input) passed. Throws Error(config) where
  // two layers with weights share a name, Error(trial) where the device has not
  // the memory.
  Network(const std::vector<LayerSpec>& layers, const Shape& input,
          const NetworkOptions& options);
  ~Network();
  Network(Network&&) noexcept;

  // x: [N, C, H, W] float32 on the device, best channels-last. Returns logits
  // [N, classes]. `tape` null: inference, nothing is kept.
  at::Tensor forward(const at::Tensor& x, Tape* tape,
                     const PassContext& context);

  // Called after the backward of top-level layer `layer`: its gradients are
  // final (layers come in reverse order).
  using GradientReady = std::function<void(int layer)>;

  // Adds to gradients(). Returns dx if need_dx, else undefined.
  at::Tensor backward(const at::Tensor& dlogits, Tape& tape,
                      bool need_dx = false,
                      const GradientReady& ready = nullptr);

  // The layers hold views of these: change them in place, never assign others.
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
