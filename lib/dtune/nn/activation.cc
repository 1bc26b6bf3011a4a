#include "dtune/nn/layer.h"

namespace dtune {
namespace {

class Relu : public Layer {
 public:
  at::Tensor forward(const at::Tensor& x, Saved* saved,
                     const PassContext&) override {
    at::Tensor y = at::relu(x);
    if (saved) saved->tensors = {y};
    return y;
  }

  at::Tensor backward(const at::Tensor& dy, Saved& saved,
                      bool need_dx) override {
    at::Tensor dx;
    if (need_dx) dx = at::threshold_backward(dy, saved.tensors.at(0), 0);
    saved.tensors.clear();
    return dx;
  }
};

// x Phi(x), exact (Hendrycks and Gimpel 2016, arXiv 1606.08415).
class Gelu : public Layer {
 public:
  at::Tensor forward(const at::Tensor& x, Saved* saved,
                     const PassContext&) override {
    if (saved) saved->tensors = {x};
    return at::gelu(x);
  }

  at::Tensor backward(const at::Tensor& dy, Saved& saved,
                      bool need_dx) override {
    at::Tensor dx;
    // LibTorch 1.13 leaves the gradient of a channels-last tensor at zero, so
    // it sees the same memory as plain tensors.
    if (need_dx) {
      dx = to_channels_first(
          at::gelu_backward(to_memory_order(dy).contiguous(),
                            to_memory_order(saved.tensors.at(0))));
    }
    saved.tensors.clear();
    return dx;
  }

 private:
  static at::Tensor to_memory_order(const at::Tensor& x) {
    return x.dim() == 4 ? x.permute({0, 2, 3, 1}) : x;
  }
  static at::Tensor to_channels_first(const at::Tensor& x) {
    return x.dim() == 4 ? x.permute({0, 3, 1, 2}) : x;
  }
};

class Tanh : public Layer {
 public:
  at::Tensor forward(const at::Tensor& x, Saved* saved,
                     const PassContext&) override {
    at::Tensor y = at::tanh(x);
    if (saved) saved->tensors = {y};
    return y;
  }

  at::Tensor backward(const at::Tensor& dy, Saved& saved,
                      bool need_dx) override {
    at::Tensor dx;
    if (need_dx) dx = at::tanh_backward(dy, saved.tensors.at(0));
    saved.tensors.clear();
    return dx;
  }
};

}  // namespace

LayerPtr make_relu() { return std::make_unique<Relu>(); }

LayerPtr make_gelu() { return std::make_unique<Gelu>(); }

LayerPtr make_tanh() { return std::make_unique<Tanh>(); }

}  // namespace dtune
