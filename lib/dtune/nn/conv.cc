#include <array>
#include <vector>

#include "dtune/nn/layer.h"

namespace dtune {
namespace {

// 2-D convolution by ATen (oneDNN on the CPU, cuDNN on CUDA).
//
// On the CPU a strided pointwise (1x1) convolution is computed without a stride,
// of the subsampled input: oneDNN 2.7 (LibTorch 1.13) writes past the end of its
// memory there where the CPU has AVX2 alone and the channels are no multiple of
// eight.
class Conv : public Layer {
 public:
  Conv(const LayerSpec& spec, const Shape& input, ParameterPool& pool)
      : stride_(spec.stride),
        padding_(effective_padding(spec)),
        groups_(spec.groups),
        has_bias_(spec.bias),
        bias_shape_{spec.channels},
        weight_(declare_weight(spec, input, pool)),
        bias_(has_bias_ ? &pool.declare(spec.name + ".bias", bias_shape_, false,
                                        Fill::of(0))
                        : nullptr) {}

  at::Tensor forward(const at::Tensor& x, Saved* saved,
                     const PassContext&) override {
    const at::Tensor weight = weight_as(x);
    if (saved) saved->tensors = {x, weight};
    const at::Tensor bias =
        has_bias_ ? bias_->value.to(x.scalar_type()) : at::Tensor();
    const bool pointwise = is_strided_pointwise(x);
    const int64_t stride = pointwise ? 1 : stride_;
    return at::convolution(pointwise ? subsampled(x) : x, weight, bias,
                           {stride, stride}, {padding_, padding_}, {1, 1},
                           false, {0, 0}, groups_);
  }

  at::Tensor backward(const at::Tensor& dy, Saved& saved,
                      bool need_dx) override {
    const at::Tensor x = saved.tensors.at(0);
    const at::Tensor weight = saved.tensors.at(1);
    saved.tensors.clear();
    const at::OptionalIntArrayRef bias_sizes =
        has_bias_ ? at::OptionalIntArrayRef(bias_shape_)
                  : at::OptionalIntArrayRef();
    const bool pointwise = is_strided_pointwise(x);
    const int64_t stride = pointwise ? 1 : stride_;
    const auto [dx, dw, db] = at::convolution_backward(
        dy, pointwise ? subsampled(x) : x, weight, bias_sizes, {stride, stride},
        {padding_, padding_}, {1, 1}, false, {0, 0}, groups_,
        {need_dx, true, has_bias_});
    weight_.gradient.add_(dw);
    if (has_bias_) bias_->gradient.add_(db);
    if (!pointwise || !need_dx) return dx;
    at::Tensor spread = at::zeros_like(x);
    subsample(spread).copy_(dx);
    return spread;
  }

 private:
  static const Parameter& declare_weight(const LayerSpec& spec,
                                         const Shape& input,
                                         ParameterPool& pool) {
    const int64_t per_group = input.channels / spec.groups;
    const int64_t fan_in = per_group * spec.kernel * spec.kernel;
    return pool.declare(spec.name + ".weight",
                        {spec.channels, per_group, spec.kernel, spec.kernel},
                        true, Fill::he(fan_in));
  }

  bool is_strided_pointwise(const at::Tensor& x) const {
    return x.is_cpu() && weight_.value.size(2) == 1 && stride_ > 1 &&
           padding_ == 0;
  }
  // The pixels that the stride takes: a view, and a copy.
  at::Tensor subsample(const at::Tensor& x) const {
    return x.slice(2, 0, x.size(2), stride_).slice(3, 0, x.size(3), stride_);
  }
  at::Tensor subsampled(const at::Tensor& x) const {
    return subsample(x).contiguous(at::MemoryFormat::ChannelsLast);
  }

  // Engines choose their channels-last kernels by the weights' layout too.
  at::Tensor weight_as(const at::Tensor& x) const {
    return weight_.value.to(x.scalar_type(), /*non_blocking=*/false,
                            /*copy=*/false, at::MemoryFormat::ChannelsLast);
  }

  int64_t stride_;
  int64_t padding_;
  int64_t groups_;
  bool has_bias_;
  std::vector<int64_t> bias_shape_;
  const Parameter& weight_;
  const Parameter* bias_;
};

}  // namespace

LayerPtr make_conv(const LayerSpec& spec, const Shape& input,
                   ParameterPool& pool) {
  return std::make_unique<Conv>(spec, input, pool);
}

}  // namespace dtune
