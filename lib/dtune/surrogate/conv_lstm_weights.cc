#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/surrogate/conv_lstm_parts.h"

namespace dtune {
namespace {

void add_spec(std::vector<TensorSpec>& specs, const std::string& name,
              const std::vector<int64_t>& shape) {
  size_t size = 1;
  for (const int64_t n : shape) size *= static_cast<size_t>(n);
  const size_t offset =
      specs.empty() ? 0 : specs.back().offset + specs.back().size;
  specs.push_back({name, shape, offset, size});
}

}  // namespace

void check_shape(const ConvLstmShape& shape) {
  if (shape.hidden < 4 || shape.hidden > 128 || shape.hidden % 4 != 0) {
    throw Error(ErrorKind::config,
                fmt::format("conv_lstm: {} hidden channels (use a multiple of "
                            "4 from 4 to 128)",
                            shape.hidden));
  }
  if (shape.head < 16 || shape.head > 256 || shape.head % 16 != 0) {
    throw Error(ErrorKind::config,
                fmt::format("conv_lstm: a head of width {} (use a multiple of "
                            "16 from 16 to 256)",
                            shape.head));
  }
}

std::vector<TensorSpec> tensor_specs(const ConvLstmShape& shape) {
  std::vector<TensorSpec> specs;
  const int64_t hidden = shape.hidden;
  for (const int layer : {1, 2}) {
    const std::string name = "layer" + std::to_string(layer);
    const int64_t channels = (layer == 1 ? kFeatures : hidden) + hidden;
    add_spec(specs, name + ".convolution", {3, 3, 3, channels, 4 * hidden});
    add_spec(specs, name + ".pooled", {2 * channels, 4 * hidden});
    add_spec(specs, name + ".bias", {4 * hidden});
  }
  add_spec(specs, "head.hidden", {4 * hidden + kFeatures, shape.head});
  add_spec(specs, "head.hidden_bias", {shape.head});
  add_spec(specs, "head.output", {shape.head, kOutputs});
  add_spec(specs, "head.output_bias", {kOutputs});
  return specs;
}

NetworkWeights weights_of(const ConvLstmShape& shape, const float* parameters) {
  const std::vector<TensorSpec> specs = tensor_specs(shape);
  const auto at = [&](size_t i) { return parameters + specs[i].offset; };
  return {{{{at(0), at(1), at(2)}, {at(3), at(4), at(5)}}},
          {at(6), at(7), at(8), at(9)}};
}

}  // namespace dtune
