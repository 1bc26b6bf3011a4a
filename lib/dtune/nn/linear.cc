#include "dtune/nn/channels_last.h"
#include "dtune/nn/layer.h"

namespace dtune {
namespace {

// y = x W^T + b; W: [out, in]. An input [N, C, H, W] is read in that order.
class Linear : public Layer {
 public:
  Linear(const LayerSpec& spec, const Shape& input, ParameterPool& pool)
      : weight_(pool.declare(spec.name + ".weight",
                             {spec.channels, input.elements()}, true,
                             Fill::he(input.elements()))),
        bias_(spec.bias ? &pool.declare(spec.name + ".bias", {spec.channels},
                                        false, Fill::of(0))
                        : nullptr) {}

  at::Tensor forward(const at::Tensor& x, Saved* saved,
                     const PassContext&) override {
    const at::Tensor flat = x.flatten(1);
    if (saved) {
      saved->tensors = {flat};
      saved->input_shape = x.sizes().vec();
    }
    const at::Tensor weight = weight_.value.to(x.scalar_type()).t();
    return bias_ ? at::addmm(bias_->value.to(x.scalar_type()), flat, weight)
                 : at::mm(flat, weight);
  }

  at::Tensor backward(const at::Tensor& dy, Saved& saved,
                      bool need_dx) override {
    const at::Tensor flat = saved.tensors.at(0);
    saved.tensors.clear();
    if (dy.scalar_type() == at::kFloat) {
      weight_.gradient.addmm_(dy.t(), flat);
    } else {
      weight_.gradient.add_(at::mm(dy.t(), flat));
    }
    if (bias_) bias_->gradient.add_(dy.sum(0, /*keepdim=*/false, at::kFloat));
    if (!need_dx) return {};
    const at::Tensor weight = weight_.value.to(dy.scalar_type());
    return channels_last(at::mm(dy, weight).view(saved.input_shape));
  }

 private:
  const Parameter& weight_;
  const Parameter* bias_;
};

}  // namespace

LayerPtr make_linear(const LayerSpec& spec, const Shape& input,
                     ParameterPool& pool) {
  return std::make_unique<Linear>(spec, input, pool);
}

}  // namespace dtune
