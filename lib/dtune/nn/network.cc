#include "dtune/nn/network.h"

#include <utility>

#include "dtune/nn/channels_last.h"
#include "dtune/nn/fuse.h"
#include "dtune/nn/gpu_norm.h"
#include "dtune/nn/layer.h"

namespace dtune {
namespace {

int64_t sum_of_flops(const std::vector<LayerSpec>& layers, const Shape& input) {
  int64_t flops = 0;
  for (const LayerInfo& info : infer_shapes(layers, input)) flops += info.flops;
  return flops;
}

Fusion fusion_of(const NetworkOptions& options) {
  if (!options.fuse) return Fusion::none;
  if (!options.device.is_cpu()) {
    return has_gpu_norm() ? Fusion::gpu : Fusion::none;
  }
  return options.compute == at::kFloat ? Fusion::cpu : Fusion::none;
}

}  // namespace

std::vector<int> network_units(const std::vector<LayerSpec>& layers,
                               const Shape& input,
                               const NetworkOptions& options) {
  const std::vector<LayerInfo> infos = infer_shapes(layers, input);
  std::vector<int> units;
  for (size_t at = 0; at < layers.size();) {
    units.push_back(static_cast<int>(at));
    const Shape& shape = at == 0 ? input : infos[at - 1].output;
    const FastRun run =
        fast_run(layers, at, shape, fusion_of(options), /*in_branch=*/false);
    at += static_cast<size_t>(run.count);
  }
  return units;
}

struct Network::Impl {
  ParameterPool pool;
  std::vector<Stage> stages;
  int64_t flops = 0;
  at::ScalarType compute = at::kFloat;
};

Network::Network(const std::vector<LayerSpec>& layers, const Shape& input,
                 const NetworkOptions& options)
    : impl_(std::make_unique<Impl>()) {
  impl_->flops = sum_of_flops(layers, input);
  impl_->compute = options.compute;
  Shape shape = input;
  const Fusion fusion = fusion_of(options);
  const int count = static_cast<int>(layers.size());
  for (int i = 0; i < count; i += impl_->stages.back().count) {
    impl_->pool.begin_layer(i);
    impl_->stages.push_back(make_stage(layers, static_cast<size_t>(i), shape,
                                       impl_->pool, {.fusion = fusion}));
  }
  impl_->pool.allocate(options);
}

Network::~Network() = default;
Network::Network(Network&&) noexcept = default;

at::Tensor Network::forward(const at::Tensor& x, Tape* tape,
                            const PassContext& context) {
  auto& stages = impl_->stages;
  if (tape) tape->layers.resize(stages.size());
  at::Tensor y = channels_last(x.to(impl_->compute));
  for (size_t i = 0; i < stages.size(); ++i) {
    y = stages[i].layer->forward(y, tape ? &tape->layers[i] : nullptr, context);
  }
  return y.to(at::kFloat);
}

at::Tensor Network::backward(const at::Tensor& dlogits, Tape& tape,
                             bool need_dx, const GradientReady& ready) {
  auto& stages = impl_->stages;
  at::Tensor dy = channels_last(dlogits.to(impl_->compute));
  for (size_t i = stages.size(); i-- > 0;) {
    Layer& layer = *stages[i].layer;
    if (i > 0) {
      const EndNorm before = stages[i - 1].layer->end_norm(tape.layers[i - 1]);
      dy = layer.backward_to(dy, tape.layers[i], {.before = before});
    } else {
      dy = layer.backward(dy, tape.layers[i], need_dx);
    }
    for (int n = stages[i].count; ready && n-- > 0;) {
      ready(stages[i].first + n);
    }
  }
  return dy.defined() ? dy.to(at::kFloat) : dy;
}

at::Tensor& Network::weights() { return impl_->pool.weights; }
at::Tensor& Network::gradients() { return impl_->pool.gradients; }
at::Tensor& Network::buffers() { return impl_->pool.buffers; }

const std::vector<ParameterSlice>& Network::parameter_slices() const {
  return impl_->pool.parameter_slices;
}

const std::vector<BufferSlice>& Network::buffer_slices() const {
  return impl_->pool.buffer_slices;
}

int64_t Network::flops_per_sample() const { return impl_->flops; }

}  // namespace dtune
