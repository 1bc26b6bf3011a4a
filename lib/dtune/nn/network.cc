#include "dtune/nn/network.h"

#include <utility>

#include "dtune/nn/channels_last.h"
#include "dtune/nn/layer.h"

namespace dtune {
namespace {

int64_t sum_of_flops(const std::vector<LayerSpec>& layers, const Shape& input) {
  int64_t flops = 0;
  for (const LayerInfo& info : infer_shapes(layers, input)) flops += info.flops;
  return flops;
}

}  // namespace

struct Network::Impl {
  ParameterPool pool;
  std::vector<LayerPtr> layers;
  int64_t flops = 0;
};

Network::Network(std::vector<LayerSpec> layers, const Shape& input,
                 const NetworkOptions& options)
    : impl_(std::make_unique<Impl>()) {
  impl_->flops = sum_of_flops(layers, input);
  Shape shape = input;
  for (size_t i = 0; i < layers.size(); ++i) {
    impl_->pool.begin_layer(static_cast<int>(i));
    impl_->layers.push_back(make_layer(layers[i], shape, impl_->pool, shape));
  }
  impl_->pool.allocate(options);
}

Network::~Network() = default;
Network::Network(Network&&) noexcept = default;

at::Tensor Network::forward(const at::Tensor& x, Tape* tape,
                            const PassContext& context) {
  auto& layers = impl_->layers;
  if (tape) tape->layers.resize(layers.size());
  at::Tensor y = channels_last(x);
  for (size_t i = 0; i < layers.size(); ++i) {
    y = layers[i]->forward(y, tape ? &tape->layers[i] : nullptr, context);
  }
  return y;
}

at::Tensor Network::backward(const at::Tensor& dlogits, Tape& tape,
                             bool need_dx, const GradientReady& ready) {
  auto& layers = impl_->layers;
  at::Tensor dy = channels_last(dlogits);
  for (size_t i = layers.size(); i-- > 0;) {
    dy = layers[i]->backward(dy, tape.layers[i], need_dx || i > 0);
    if (ready) ready(static_cast<int>(i));
  }
  return dy;
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
