#include "dtune/nn/kernels/activation.h"

#include "dtune/nn/layer.h"
#include "dtune/nn/ranges.h"

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
    if (need_dx) {
      // LibTorch 1.13 returns zeros where the two differ in layout.
      const at::Tensor& x = saved.tensors.at(0);
      dx = at::gelu_backward(dy.contiguous(x.suggest_memory_format()), x);
    }
    saved.tensors.clear();
    return dx;
  }
};

at::Tensor tanh_of(const at::Tensor& x) {
  const bool fast = x.is_cpu() && x.scalar_type() == at::kFloat &&
                    x.is_non_overlapping_and_dense();
  if (!fast) return at::tanh(x);
  at::Tensor y = at::empty_like(x);
  const float* from = x.data_ptr<float>();
  float* to = y.data_ptr<float>();
  for_each_range(x.numel(), [&](size_t, Range range) {
    activation_kernels().tanh(range.size(), from + range.begin,
                              to + range.begin);
  });
  return y;
}

class Tanh : public Layer {
 public:
  at::Tensor forward(const at::Tensor& x, Saved* saved,
                     const PassContext&) override {
    at::Tensor y = tanh_of(x);
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
