#include "dtune/nn/channels_last.h"
#include "dtune/nn/fast_norm.h"

namespace dtune {
namespace {

// What normalisation reads: on CUDA devices its kernels take bfloat16 beside
// float32 weights.
at::Tensor readable(const at::Tensor& x) {
  return x.is_cpu() ? x.to(at::kFloat) : x;
}

// Ioffe and Szegedy 2015 (arXiv 1502.03167). Statistics are those of the batch
// that is passed: a micro-batch has its own, and moves the running ones.
class BatchNorm : public Layer {
 public:
  BatchNorm(const LayerSpec& spec, const Shape& input, ParameterPool& pool)
      : own_(spec, input, pool) {}

  at::Tensor forward(const at::Tensor& x, Saved* saved,
                     const PassContext& context) override {
    const bool seen = context.training && context.repeated;
    const at::Tensor in = readable(x);
    auto [y, batch_mean, batch_deviation] = at::native_batch_norm(
        in, own_.weight.value, own_.bias.value, seen ? at::Tensor() : own_.mean,
        seen ? at::Tensor() : own_.variance, context.training, kNormMomentum,
        kNormEpsilon);
    if (saved) {
      saved->tensors = {in, batch_mean, batch_deviation};
      saved->training = context.training;
    }
    return y.to(x.scalar_type());
  }

  at::Tensor backward(const at::Tensor& dy, Saved& saved,
                      bool need_dx) override {
    const auto [dx, dw, db] = at::native_batch_norm_backward(
        readable(dy), saved.tensors.at(0), own_.weight.value, own_.mean,
        own_.variance, saved.tensors.at(1), saved.tensors.at(2), saved.training,
        kNormEpsilon, {need_dx, true, true});
    saved.tensors.clear();
    own_.weight.gradient.add_(dw);
    own_.bias.gradient.add_(db);
    return need_dx ? dx.to(dy.scalar_type()) : at::Tensor();
  }

 private:
  NormParameters own_;
};

// Wu and He 2018 (arXiv 1803.08494).
class GroupNorm : public Layer {
 public:
  GroupNorm(const LayerSpec& spec, const Shape& input, ParameterPool& pool)
      : groups_(spec.groups),
        weight_(pool.declare(spec.name + ".weight", {input.channels}, false,
                             Fill::of(1))),
        bias_(pool.declare(spec.name + ".bias", {input.channels}, false,
                           Fill::of(0))) {}

  // ATen 1.13 normalises groups in NCHW order only; hence the copies.
  at::Tensor forward(const at::Tensor& x, Saved* saved,
                     const PassContext&) override {
    const at::Tensor plain = x.to(at::kFloat).contiguous();
    auto [y, mean, deviation] =
        at::native_group_norm(plain, weight_.value, bias_.value, x.size(0),
                              x.size(1), area(x), groups_, kNormEpsilon);
    if (saved) saved->tensors = {plain, mean, deviation};
    return channels_last(y.to(x.scalar_type()));
  }

  at::Tensor backward(const at::Tensor& dy, Saved& saved,
                      bool need_dx) override {
    const at::Tensor x = saved.tensors.at(0);
    const auto [dx, dw, db] = at::native_group_norm_backward(
        dy.to(at::kFloat).contiguous(), x, saved.tensors.at(1),
        saved.tensors.at(2), weight_.value, x.size(0), x.size(1), area(x),
        groups_, {need_dx, true, true});
    saved.tensors.clear();
    weight_.gradient.add_(dw);
    bias_.gradient.add_(db);
    return need_dx ? channels_last(dx.to(dy.scalar_type())) : at::Tensor();
  }

 private:
  static int64_t area(const at::Tensor& x) {
    return x.dim() == 4 ? x.size(2) * x.size(3) : 1;
  }

  int64_t groups_;
  const Parameter& weight_;
  const Parameter& bias_;
};

}  // namespace

LayerPtr make_batch_norm(const LayerSpec& spec, const Shape& input,
                         ParameterPool& pool) {
  return std::make_unique<BatchNorm>(spec, input, pool);
}

LayerPtr make_group_norm(const LayerSpec& spec, const Shape& input,
                         ParameterPool& pool) {
  return std::make_unique<GroupNorm>(spec, input, pool);
}

}  // namespace dtune
