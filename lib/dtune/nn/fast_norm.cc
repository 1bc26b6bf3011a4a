#include "dtune/nn/fast_norm.h"

#include <cmath>
#include <functional>

#include "dtune/nn/channels_last.h"
#include "dtune/nn/kernels/batch_norm.h"
#include "dtune/nn/ranges.h"

namespace dtune {
namespace {

NormRows rows_of(const at::Tensor& x, bool relu) {
  return {x.numel() / x.size(1), static_cast<int>(x.size(1)), relu};
}

std::vector<float> copy_of(const at::Tensor& x) {
  const float* first = x.data_ptr<float>();
  return {first, first + x.numel()};
}

at::Tensor tensor_of(const std::vector<float>& values) {
  return at::tensor(values, at::kFloat);
}

// Two sums over all rows for each channel, added up in the ranges' order.
class ChannelSums {
 public:
  using Work =
      std::function<void(NormRows part, int64_t first, double*, double*)>;

  ChannelSums(const NormRows& shape, const Work& work)
      : first(static_cast<size_t>(shape.channels)), second(first) {
    const size_t ranges = range_count(shape.rows);
    const size_t each = first.size();
    std::vector<double> sums(2 * ranges * each);
    for_each_range(shape.rows, [&](size_t i, Range range) {
      NormRows part = shape;
      part.rows = range.size();
      double* mine = sums.data() + 2 * i * each;
      work(part, range.begin * shape.channels, mine, mine + each);
    });
    for (size_t i = 0; i < ranges; ++i) {
      for (size_t c = 0; c < each; ++c) {
        first[c] += sums[2 * i * each + c];
        second[c] += sums[(2 * i + 1) * each + c];
      }
    }
  }

  std::vector<double> first;
  std::vector<double> second;
};

// The mean of some pixels from all over the batch. A single one could be far
// from the mean (corners see zeros beyond the image), and what the shift is for
// would be lost; the running mean is, in the first batches.
std::vector<float> typical_pixel(const NormRows& shape, const float* x) {
  constexpr int64_t kPixels = 31;
  std::vector<float> sum(static_cast<size_t>(shape.channels));
  for (int64_t i = 0; i < kPixels; ++i) {
    const int64_t row = shape.rows * (2 * i + 1) / (2 * kPixels);
    for (size_t c = 0; c < sum.size(); ++c) {
      sum[c] += x[row * shape.channels + static_cast<int64_t>(c)] / kPixels;
    }
  }
  return sum;
}

}  // namespace

NormParameters::NormParameters(const LayerSpec& spec, const Shape& input,
                               ParameterPool& pool)
    : weight(pool.declare(spec.name + ".weight", {input.channels}, false,
                          Fill::of(1))),
      bias(pool.declare(spec.name + ".bias", {input.channels}, false,
                        Fill::of(0))),
      mean(pool.declare_buffer(spec.name + ".running_mean", {input.channels},
                               0)),
      variance(pool.declare_buffer(spec.name + ".running_var", {input.channels},
                                   1)) {}

FastNorm::Statistics FastNorm::running() const {
  return {copy_of(own_.mean), copy_of(own_.variance)};
}

FastNorm::Statistics FastNorm::of_batch(const at::Tensor& x) const {
  const NormRows shape = rows_of(x, relu_);
  const std::vector<float> shift = typical_pixel(shape, x.data_ptr<float>());
  const ChannelSums sums(shape, [&](const NormRows& part, int64_t at,
                                    double* first, double* second) {
    norm_kernels().statistics(part, x.data_ptr<float>() + at, shift.data(),
                              first, second);
  });
  Statistics batch;
  const auto rows = static_cast<double>(shape.rows);
  for (size_t c = 0; c < sums.first.size(); ++c) {
    const double away = sums.first[c] / rows;
    const double variance = sums.second[c] / rows - away * away;
    batch.mean.push_back(static_cast<float>(shift[c] + away));
    // Rounding may make it negative; NaN stays.
    batch.variance.push_back(variance < 0 ? 0.0F
                                          : static_cast<float>(variance));
  }
  return batch;
}

void FastNorm::move_running(const Statistics& batch, int64_t rows) {
  const auto n = static_cast<double>(rows);
  float* mean = own_.mean.data_ptr<float>();
  float* variance = own_.variance.data_ptr<float>();
  for (size_t c = 0; c < batch.mean.size(); ++c) {
    const double unbiased = batch.variance[c] * n / (n - 1);
    mean[c] += static_cast<float>(kNormMomentum * (batch.mean[c] - mean[c]));
    variance[c] += static_cast<float>(kNormMomentum * (unbiased - variance[c]));
  }
}

at::Tensor FastNorm::forward(const at::Tensor& x, Saved* saved,
                             const PassContext& context) {
  return forward_sum(x, {}, saved, context);
}

at::Tensor FastNorm::forward_sum(const at::Tensor& input,
                                 const at::Tensor& addend, Saved* saved,
                                 const PassContext& context) {
  const at::Tensor x = channels_last(input);
  const at::Tensor more = addend.defined() ? channels_last(addend) : addend;
  const NormRows shape = rows_of(x, relu_);
  const Statistics used = context.training ? of_batch(x) : running();
  if (context.training && !context.repeated) move_running(used, shape.rows);
  std::vector<float> deviation;  // its inverse
  std::vector<float> scale;
  std::vector<float> offset;
  const float* weight = own_.weight.value.data_ptr<float>();
  const float* bias = own_.bias.value.data_ptr<float>();
  for (size_t c = 0; c < used.mean.size(); ++c) {
    const double inverse = 1 / std::sqrt(used.variance[c] + kNormEpsilon);
    deviation.push_back(static_cast<float>(inverse));
    scale.push_back(static_cast<float>(weight[c] * inverse));
    offset.push_back(
        static_cast<float>(bias[c] - used.mean[c] * weight[c] * inverse));
  }
  const at::Tensor y = at::empty_like(x, at::MemoryFormat::ChannelsLast);
  for_each_range(shape.rows, [&](size_t, Range range) {
    NormRows part = shape;
    part.rows = range.size();
    const int64_t at = range.begin * shape.channels;
    norm_kernels().apply(part, x.data_ptr<float>() + at, scale.data(),
                         offset.data(),
                         more.defined() ? more.data_ptr<float>() + at : nullptr,
                         y.data_ptr<float>() + at);
  });
  if (saved) {
    saved->tensors = {x, y, tensor_of(used.mean), tensor_of(deviation)};
    saved->training = context.training;
  }
  return y;
}

at::Tensor FastNorm::backward(const at::Tensor& dy, Saved& saved,
                              bool need_dx) {
  return backward_sum(dy, saved, need_dx, nullptr);
}

at::Tensor FastNorm::backward_sum(const at::Tensor& gradient, Saved& saved,
                                  bool need_dx, at::Tensor* daddend) {
  const at::Tensor dy = channels_last(gradient);
  const at::Tensor x = saved.tensors.at(0);
  const at::Tensor y = saved.tensors.at(1);
  const at::Tensor mean = saved.tensors.at(2);
  const at::Tensor deviation = saved.tensors.at(3);
  saved.tensors.clear();
  const NormRows shape = rows_of(x, relu_);
  float* masked = nullptr;
  if (daddend != nullptr) {
    *daddend = relu_ ? at::empty_like(x, at::MemoryFormat::ChannelsLast) : dy;
    if (relu_) masked = daddend->data_ptr<float>();
  }
  const ChannelSums sums(shape, [&](const NormRows& part, int64_t at,
                                    double* first, double* second) {
    norm_kernels().gradient_sums(
        part, dy.data_ptr<float>() + at, x.data_ptr<float>() + at,
        y.data_ptr<float>() + at, mean.data_ptr<float>(), first, second,
        masked == nullptr ? nullptr : masked + at);
  });
  std::vector<float> scale;
  std::vector<float> slope;
  std::vector<float> offset;
  const auto rows = static_cast<double>(shape.rows);
  const float* weight = own_.weight.value.data_ptr<float>();
  float* dweight = own_.weight.gradient.data_ptr<float>();
  float* dbias = own_.bias.gradient.data_ptr<float>();
  for (size_t c = 0; c < sums.first.size(); ++c) {
    const double inverse = deviation.data_ptr<float>()[c];
    dweight[c] += static_cast<float>(sums.second[c] * inverse);
    dbias[c] += static_cast<float>(sums.first[c]);
    const double by = weight[c] * inverse;
    const double tilt =
        saved.training ? -by * inverse * inverse * sums.second[c] / rows : 0;
    const double shift = saved.training ? -by * sums.first[c] / rows -
                                              tilt * mean.data_ptr<float>()[c]
                                        : 0;
    scale.push_back(static_cast<float>(by));
    slope.push_back(static_cast<float>(tilt));
    offset.push_back(static_cast<float>(shift));
  }
  if (!need_dx) return {};
  const at::Tensor dx = at::empty_like(x, at::MemoryFormat::ChannelsLast);
  for_each_range(shape.rows, [&](size_t, Range range) {
    NormRows part = shape;
    part.rows = range.size();
    part.relu = relu_ && masked == nullptr;
    const int64_t at = range.begin * shape.channels;
    norm_kernels().input_gradient(
        part, (masked == nullptr ? dy.data_ptr<float>() : masked) + at,
        x.data_ptr<float>() + at, y.data_ptr<float>() + at, scale.data(),
        slope.data(), offset.data(), dx.data_ptr<float>() + at);
  });
  return dx;
}

}  // namespace dtune
