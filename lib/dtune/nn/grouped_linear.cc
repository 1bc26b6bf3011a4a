#include "dtune/nn/channels_last.h"
#include "dtune/nn/layer.h"

namespace dtune {
namespace {

// Linear layers whose inputs and outputs lie side by side, as one batched
// product: W: [groups * out, in]; x: [N, groups * in].
class GroupedLinear : public Layer {
 public:
  GroupedLinear(const LayerSpec& spec, const Shape& input, ParameterPool& pool)
      : groups_(spec.groups),
        inputs_(input.elements() / spec.groups),
        outputs_(spec.channels / spec.groups),
        weight_(pool.declare(spec.name + ".weight", {spec.channels, inputs_},
                             true, Fill::he(inputs_))),
        bias_(spec.bias ? &pool.declare(spec.name + ".bias", {spec.channels},
                                        false, Fill::of(0))
                        : nullptr) {}

  at::Tensor forward(const at::Tensor& x, Saved* saved,
                     const PassContext&) override {
    const at::Tensor in = apart(x.flatten(1), inputs_);
    if (saved) {
      saved->tensors = {in};
      saved->input_shape = x.sizes().vec();
    }
    const at::Tensor weight = weight_as(x).transpose(1, 2);
    if (!bias_) return together(at::bmm(in, weight));
    const at::Tensor bias =
        bias_->value.to(x.scalar_type()).view({groups_, 1, outputs_});
    return together(at::baddbmm(bias, in, weight));
  }

  at::Tensor backward(const at::Tensor& dy, Saved& saved,
                      bool need_dx) override {
    const at::Tensor in = saved.tensors.at(0);
    saved.tensors.clear();
    const at::Tensor out = apart(dy, outputs_);
    weight_.gradient.add_(
        at::bmm(out.transpose(1, 2), in).view_as(weight_.gradient));
    if (bias_) bias_->gradient.add_(dy.sum(0, /*keepdim=*/false, at::kFloat));
    if (!need_dx) return {};
    return channels_last(
        together(at::bmm(out, weight_as(dy))).view(saved.input_shape));
  }

 private:
  // [N, groups * width] to [groups, N, width], and back.
  at::Tensor apart(const at::Tensor& x, int64_t width) const {
    return x.reshape({-1, groups_, width}).transpose(0, 1);
  }
  static at::Tensor together(const at::Tensor& x) {
    return x.transpose(0, 1).flatten(1);
  }

  // [groups, out, in].
  at::Tensor weight_as(const at::Tensor& x) const {
    return weight_.value.to(x.scalar_type()).view({groups_, outputs_, inputs_});
  }

  int64_t groups_;
  int64_t inputs_;
  int64_t outputs_;
  const Parameter& weight_;
  const Parameter* bias_;
};

}  // namespace

LayerPtr make_grouped_linear(const LayerSpec& spec, const Shape& input,
                             ParameterPool& pool) {
  return std::make_unique<GroupedLinear>(spec, input, pool);
}

}  // namespace dtune
