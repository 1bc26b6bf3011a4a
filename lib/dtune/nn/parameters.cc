#include "dtune/nn/parameters.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "dtune/base/random.h"

namespace dtune {
namespace {

int64_t element_count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

template <typename Slice>
void check_name_is_free(const std::vector<Slice>& slices,
                        const std::string& name) {
  const bool taken =
      std::any_of(slices.begin(), slices.end(),
                  [&](const Slice& slice) { return slice.name == name; });
  if (!taken) return;
  throw Error(ErrorKind::config, "model: two layers would both own '" + name +
                                     "' (give every layer a name of its own)");
}

template <typename Slice>
at::Tensor view_of(const at::Tensor& flat, const Slice& slice) {
  return flat.narrow(0, slice.offset, element_count(slice.shape))
      .view(slice.shape);
}

}  // namespace

const Parameter& ParameterPool::declare(const std::string& name,
                                        std::vector<int64_t> shape, bool decays,
                                        Fill fill) {
  check_name_is_free(parameter_slices, name);
  const int64_t count = element_count(shape);
  parameter_slices.push_back(
      {name, weight_count_, std::move(shape), decays, layer_});
  weight_count_ += count;
  fills_.push_back(fill);
  return parameters_.emplace_back();
}

const at::Tensor& ParameterPool::declare_buffer(const std::string& name,
                                                std::vector<int64_t> shape,
                                                double value) {
  check_name_is_free(buffer_slices, name);
  const int64_t count = element_count(shape);
  buffer_slices.push_back({name, buffer_count_, std::move(shape)});
  buffer_count_ += count;
  buffer_values_.push_back(value);
  return buffer_views_.emplace_back();
}

void ParameterPool::allocate(const NetworkOptions& options) {
  const auto on_device = at::TensorOptions(at::kFloat).device(options.device);
  at::Tensor start = at::zeros({weight_count_}, at::kFloat);
  if (options.initialize) {
    fill_weights(start.data_ptr<float>(), options.init_seed);
  }
  weights = start.to(options.device);
  gradients = at::zeros({weight_count_}, on_device);
  buffers = at::zeros({buffer_count_}, on_device);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].value = view_of(weights, parameter_slices[i]);
    parameters_[i].gradient = view_of(gradients, parameter_slices[i]);
  }
  for (size_t i = 0; i < buffer_views_.size(); ++i) {
    buffer_views_[i] = view_of(buffers, buffer_slices[i]);
    buffer_views_[i].fill_(buffer_values_[i]);
  }
}

void ParameterPool::fill_weights(float* data, uint64_t seed) const {
  for (size_t i = 0; i < fills_.size(); ++i) {
    const ParameterSlice& slice = parameter_slices[i];
    float* first = data + slice.offset;
    float* last = first + element_count(slice.shape);
    const Fill& fill = fills_[i];
    if (fill.kind == Fill::Kind::constant) {
      std::fill(first, last, static_cast<float>(fill.value));
      continue;
    }
    const double bound = std::sqrt(6.0 / static_cast<double>(fill.fan_in));
    Rng rng(mix_seed({seed, hash_text(slice.name)}));
    std::generate(first, last, [&] {
      return static_cast<float>(rng.uniform(-bound, bound));
    });
  }
}

}  // namespace dtune
