#include "nn/oracle.h"

#include <algorithm>
#include <map>
#include <string>

namespace dtune {
namespace {

// The network's tensors by name, as autograd's leaves.
class Leaves {
 public:
  explicit Leaves(Network& network) {
    for (const ParameterSlice& slice : network.parameter_slices()) {
      tensors_[slice.name] =
          cut(network.weights(), slice).clone().requires_grad_();
    }
    for (const BufferSlice& slice : network.buffer_slices()) {
      tensors_[slice.name] = cut(network.buffers(), slice).clone();
    }
  }

  at::Tensor get(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? at::Tensor() : found->second;
  }

  at::Tensor gradients(Network& network) const {
    at::Tensor flat = at::zeros_like(network.gradients());
    for (const ParameterSlice& slice : network.parameter_slices()) {
      cut(flat, slice).copy_(tensors_.at(slice.name).grad());
    }
    return flat;
  }

 private:
  template <typename Slice>
  static at::Tensor cut(const at::Tensor& flat, const Slice& slice) {
    int64_t count = 1;
    for (const int64_t size : slice.shape) count *= size;
    return flat.narrow(0, slice.offset, count).view(slice.shape);
  }

  std::map<std::string, at::Tensor> tensors_;
};

at::Tensor run_list(const std::vector<LayerSpec>& layers, const Leaves& leaves,
                    at::Tensor x, bool training);

at::Tensor run_layer(const LayerSpec& spec, const Leaves& leaves,
                     const at::Tensor& x, bool training) {
  const int64_t padding = effective_padding(spec);
  const at::Tensor weight = leaves.get(spec.name + ".weight");
  const at::Tensor bias = leaves.get(spec.name + ".bias");
  switch (spec.kind) {
    case LayerKind::conv:
      return at::conv2d(x, weight, bias, spec.stride, padding, 1, spec.groups);
    case LayerKind::linear:
      return at::linear(x.flatten(1), weight, bias);
    case LayerKind::batch_norm:
      return at::batch_norm(
          x, weight, bias, leaves.get(spec.name + ".running_mean"),
          leaves.get(spec.name + ".running_var"), training, 0.1, 1e-5, false);
    case LayerKind::group_norm:
      return at::group_norm(x, spec.groups, weight, bias, 1e-5);
    case LayerKind::relu:
      return at::relu(x);
    case LayerKind::gelu:
      return at::gelu(x);
    case LayerKind::tanh:
      return at::tanh(x);
    case LayerKind::max_pool:
      return at::max_pool2d(x, spec.kernel, spec.stride, padding);
    case LayerKind::avg_pool:
      return at::avg_pool2d(x, spec.kernel, spec.stride, padding);
    case LayerKind::global_avg_pool:
      return at::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
    case LayerKind::flatten:
      return x.flatten(1);
    case LayerKind::dropout:
      return x;
    case LayerKind::residual:
      return run_list(spec.body, leaves, x, training) +
             run_list(spec.shortcut, leaves, x, training);
  }
  return {};
}

at::Tensor run_list(const std::vector<LayerSpec>& layers, const Leaves& leaves,
                    at::Tensor x, bool training) {
  for (const LayerSpec& spec : layers) {
    x = run_layer(spec, leaves, x, training);
  }
  return x;
}

}  // namespace

OracleResult run_oracle(const std::vector<LayerSpec>& layers, Network& network,
                        const at::Tensor& x, const at::Tensor& dy,
                        bool training) {
  const Leaves leaves(network);
  const at::Tensor input = x.clone().requires_grad_();
  const at::Tensor y = run_list(layers, leaves, input, training);
  // In y's layout: gelu's gradient is lost in LibTorch 1.13 where they differ.
  (y * dy.contiguous()).sum().backward();
  return {y.detach(), input.grad(), leaves.gradients(network)};
}

double relative_error(const at::Tensor& actual, const at::Tensor& expected) {
  if (expected.numel() == 0) return actual.numel() == 0 ? 0 : 1;
  const double scale = expected.abs().max().item<double>();
  const double error = (actual - expected).abs().max().item<double>();
  return error / std::max(scale, 1e-12);
}

}  // namespace dtune
