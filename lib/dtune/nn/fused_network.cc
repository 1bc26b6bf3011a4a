#include "dtune/nn/fused_network.h"

#include <functional>
#include <numeric>

namespace dtune {
namespace {

std::vector<LayerSpec> side_by_side(std::vector<LayerSpec> layers,
                                    int networks) {
  for (LayerSpec& layer : layers) {
    const bool weighs =
        layer.kind == LayerKind::conv || layer.kind == LayerKind::linear;
    if (weighs) layer.channels *= networks;
    if (weighs || layer.kind == LayerKind::group_norm) layer.groups *= networks;
    layer.body = side_by_side(std::move(layer.body), networks);
    layer.shortcut = side_by_side(std::move(layer.shortcut), networks);
  }
  return layers;
}

Shape side_by_side(Shape shape, int networks) {
  shape.channels *= networks;
  return shape;
}

NetworkOptions plain(NetworkOptions options) {
  options.fuse = false;
  options.initialize = false;
  return options;
}

Network make(const std::vector<LayerSpec>& layers, const Shape& input,
             int networks, const NetworkOptions& options) {
  std::vector<LayerSpec> wide = side_by_side(layers, networks);
  const Shape wide_input = side_by_side(input, networks);
  infer_shapes(wide, wide_input);
  return {wide, wide_input, plain(options)};
}

}  // namespace

FusedNetwork::FusedNetwork(const std::vector<LayerSpec>& layers,
                           const Shape& input, int networks,
                           const NetworkOptions& options)
    : networks_(networks),
      device_(options.device),
      network_(make(layers, input, networks, options)),
      weights_(find_places(network_.parameter_slices())),
      buffers_(find_places(network_.buffer_slices())) {}

// A slice of the flat tensor has the networks' slices one after the other.
template <typename Slice>
FusedNetwork::Places FusedNetwork::find_places(
    const std::vector<Slice>& slices) const {
  std::vector<at::Tensor> columns;
  for (const Slice& slice : slices) {
    const int64_t all = std::accumulate(slice.shape.begin(), slice.shape.end(),
                                        int64_t{1}, std::multiplies<>());
    columns.push_back(at::arange(slice.offset, slice.offset + all, at::kLong)
                          .view({networks_, all / networks_}));
  }
  if (columns.empty()) columns.push_back(at::empty({networks_, 0}, at::kLong));
  const at::Tensor of_rows = at::cat(columns, 1).flatten();
  return {of_rows.to(device_), of_rows.argsort().to(device_)};
}

void FusedNetwork::set_weights(const at::Tensor& rows) {
  network_.weights().copy_(rows.flatten().index_select(0, weights_.of_flat));
}

void FusedNetwork::set_buffers(const at::Tensor& rows) {
  network_.buffers().copy_(rows.flatten().index_select(0, buffers_.of_flat));
}

at::Tensor FusedNetwork::buffers() {
  return network_.buffers()
      .index_select(0, buffers_.of_rows)
      .view({networks_, -1});
}

at::Tensor FusedNetwork::take_gradients() {
  at::Tensor rows = network_.gradients()
                        .index_select(0, weights_.of_rows)
                        .view({networks_, -1});
  network_.gradients().zero_();
  return rows;
}

std::map<std::string, double> dropout_of(const std::vector<LayerSpec>& layers) {
  std::map<std::string, double> rates;
  for (const LayerSpec& layer : layers) {
    if (layer.kind == LayerKind::dropout) rates[layer.name] = layer.p;
    rates.merge(dropout_of(layer.body));
    rates.merge(dropout_of(layer.shortcut));
  }
  return rates;
}

}  // namespace dtune
