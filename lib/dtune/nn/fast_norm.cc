#include "dtune/nn/fast_norm.h"

#include <cmath>

#include "dtune/nn/channels_last.h"
#include "dtune/nn/ranges.h"

namespace dtune {
namespace {

// The mean of some pixels from all over the part. A single one could be far
// from the mean (corners see zeros beyond the image), and what the shift is for
// would be lost; the running mean is, in the first batches.
std::vector<float> typical_pixel(const NormRows& part, const float* x) {
  constexpr int64_t kPixels = 31;
  std::vector<float> sum(static_cast<size_t>(part.channels));
  for (int64_t i = 0; i < kPixels; ++i) {
    const int64_t row = part.rows * (2 * i + 1) / (2 * kPixels);
    for (size_t c = 0; c < sum.size(); ++c) {
      sum[c] += x[row * part.channels + static_cast<int64_t>(c)] / kPixels;
    }
  }
  return sum;
}

NormRows part_of(NormRows shape, Range range) {
  shape.rows = range.size();
  return shape;
}

}  // namespace

NormSums::NormSums(const at::Tensor& values) : NormSums(values.size(1)) {
  const double* from = values.data_ptr<double>();
  const auto channels = static_cast<int64_t>(first.size());
  first.assign(from, from + channels);
  second.assign(from + channels, from + 2 * channels);
}

at::Tensor NormSums::values() const {
  const auto channels = static_cast<int64_t>(first.size());
  const at::Tensor values = at::empty({2, channels}, at::kDouble);
  double* to = values.data_ptr<double>();
  std::copy(first.begin(), first.end(), to);
  std::copy(second.begin(), second.end(), to + channels);
  return values;
}

void NormSums::add(const NormSums& other) {
  for (size_t c = 0; c < first.size(); ++c) {
    first[c] += other.first[c];
    second[c] += other.second[c];
  }
}

void PixelStatistics::add(const NormRows& part, const float* x) {
  if (part.rows == 0) return;
  if (shift_.empty()) shift_ = typical_pixel(part, x);
  norm_kernels().statistics(part, x, shift_.data(), sums_.first.data(),
                            sums_.second.data());
  rows_ += part.rows;
}

double PixelStatistics::mean(size_t channel) const {
  return shift_[channel] + sums_.first[channel] / static_cast<double>(rows_);
}

double PixelStatistics::variance(size_t channel) const {
  const auto rows = static_cast<double>(rows_);
  const double away = sums_.first[channel] / rows;
  const double variance = sums_.second[channel] / rows - away * away;
  return variance < 0 ? 0 : variance;  // by rounding; NaN stays
}

// Sums after another shift: x - a = (x - b) + (b - a).
void PixelStatistics::merge(const PixelStatistics& other) {
  if (shift_.empty()) shift_ = other.shift_;
  const auto rows = static_cast<double>(other.rows_);
  for (size_t c = 0; c < other.shift_.size(); ++c) {
    const double apart = double{other.shift_[c]} - shift_[c];
    const double sum = other.sums_.first[c];
    sums_.first[c] += sum + rows * apart;
    sums_.second[c] += other.sums_.second[c] + apart * (2 * sum + rows * apart);
  }
  rows_ += other.rows_;
}

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

template <typename Mean, typename Variance>
NormMap NormParameters::make_map(const Mean& mean_of,
                                 const Variance& variance_of) const {
  const int64_t channels = weight.value.numel();
  NormMap map{at::empty({4, channels}, at::kFloat)};
  float* to = map.values.data_ptr<float>();
  const float* by = weight.value.data_ptr<float>();
  const float* plus = bias.value.data_ptr<float>();
  for (int64_t c = 0; c < channels; ++c) {
    const auto centre = static_cast<float>(mean_of(static_cast<size_t>(c)));
    const double inverse =
        1 / std::sqrt(variance_of(static_cast<size_t>(c)) + kNormEpsilon);
    to[c] = centre;
    to[channels + c] = static_cast<float>(inverse);
    to[2 * channels + c] = static_cast<float>(by[c] * inverse);
    to[3 * channels + c] =
        static_cast<float>(plus[c] - centre * by[c] * inverse);
  }
  return map;
}

NormMap NormParameters::map_of_running() const {
  const float* centre = mean.data_ptr<float>();
  const float* spread = variance.data_ptr<float>();
  return make_map([&](size_t c) { return centre[c]; },
                  [&](size_t c) { return double{spread[c]}; });
}

NormMap NormParameters::map_of_batch(const PixelStatistics& batch,
                                     const PassContext& context) const {
  if (!context.repeated) {
    const auto n = static_cast<double>(batch.rows());
    float* centre = mean.data_ptr<float>();
    float* spread = variance.data_ptr<float>();
    for (int64_t i = 0; i < mean.numel(); ++i) {
      const auto c = static_cast<size_t>(i);
      const double unbiased = batch.variance(c) * n / (n - 1);
      centre[i] +=
          static_cast<float>(kNormMomentum * (batch.mean(c) - centre[i]));
      spread[i] += static_cast<float>(kNormMomentum * (unbiased - spread[i]));
    }
  }
  return make_map([&](size_t c) { return batch.mean(c); },
                  [&](size_t c) { return batch.variance(c); });
}

NormGradientMap NormParameters::add_gradient(const NormMap& map,
                                             const NormSums& sums, int64_t rows,
                                             bool training) const {
  NormGradientMap gradient;
  const auto n = static_cast<double>(rows);
  const float* by = weight.value.data_ptr<float>();
  float* dweight = weight.gradient.data_ptr<float>();
  float* dbias = bias.gradient.data_ptr<float>();
  for (size_t c = 0; c < sums.first.size(); ++c) {
    const double inverse = map.deviation()[c];
    dweight[c] += static_cast<float>(sums.second[c] * inverse);
    dbias[c] += static_cast<float>(sums.first[c]);
    const double scale = by[c] * inverse;
    const double slope =
        training ? -scale * inverse * inverse * sums.second[c] / n : 0;
    const double offset =
        training ? -scale * sums.first[c] / n - slope * map.mean()[c] : 0;
    gradient.scale.push_back(static_cast<float>(scale));
    gradient.slope.push_back(static_cast<float>(slope));
    gradient.offset.push_back(static_cast<float>(offset));
  }
  return gradient;
}

NormRows norm_rows(const at::Tensor& x, bool relu) {
  return {x.numel() / x.size(1), static_cast<int>(x.size(1)), relu};
}

at::Tensor normalise(const at::Tensor& x, const NormMap& map, bool relu,
                     const at::Tensor& addend) {
  const NormRows shape = norm_rows(x, relu);
  const at::Tensor y = at::empty_like(x, at::MemoryFormat::ChannelsLast);
  for_each_range(shape.rows, [&](size_t, Range range) {
    const int64_t at = range.begin * shape.channels;
    norm_kernels().apply(
        part_of(shape, range), x.data_ptr<float>() + at, map.scale(),
        map.offset(),
        addend.defined() ? addend.data_ptr<float>() + at : nullptr,
        y.data_ptr<float>() + at);
  });
  return y;
}

namespace {

NormSums gradient_sums(const at::Tensor& dy, const at::Tensor& x,
                       const at::Tensor& y, const NormMap& map, bool relu,
                       const at::Tensor& masked) {
  const NormRows shape = norm_rows(x, relu);
  std::vector<NormSums> sums(range_count(shape.rows), NormSums(x.size(1)));
  for_each_range(shape.rows, [&](size_t worker, Range range) {
    const int64_t at = range.begin * shape.channels;
    norm_kernels().gradient_sums(
        part_of(shape, range),
        {.dy = dy.data_ptr<float>() + at,
         .x = x.data_ptr<float>() + at,
         .y = relu ? y.data_ptr<float>() + at : nullptr,
         .masked = masked.defined() ? masked.data_ptr<float>() + at : nullptr},
        map.mean(), sums[worker].first.data(), sums[worker].second.data());
  });
  for (size_t i = 1; i < sums.size(); ++i) sums[0].add(sums[i]);
  return sums[0];
}

}  // namespace

ResultGradient result_gradient(const at::Tensor& dy, const at::Tensor& x,
                               const at::Tensor& y, const NormMap& map,
                               bool relu, at::Tensor& made,
                               AddendGradient* addend) {
  if (made.defined()) {  // dy is zero where the ReLU is off
    const NormSums sums(std::exchange(made, at::Tensor()));
    // Copied, since what the chain adds to its values must not change dy.
    if (addend != nullptr && !addend->values.defined()) {
      addend->values = dy.clone();
    }
    return {addend != nullptr ? addend->values : dy, {}, false, sums};
  }
  if (addend == nullptr) {
    return {dy, y, relu, gradient_sums(dy, x, y, map, relu, {})};
  }
  if (!relu) {
    addend->values = dy;
    return {dy, {}, false, gradient_sums(dy, x, y, map, relu, {})};
  }
  if (!addend->values.defined()) {
    addend->values = at::empty_like(x, at::MemoryFormat::ChannelsLast);
  }
  return {addend->values,
          {},
          false,
          gradient_sums(dy, x, y, map, relu, addend->values)};
}

at::Tensor FastNorm::forward_sum(const at::Tensor& input,
                                 const at::Tensor& addend, Saved* saved,
                                 const PassContext& context) {
  const at::Tensor x = channels_last(input);
  NormMap map;
  if (context.training) {
    const NormRows shape = norm_rows(x, relu_);
    std::vector<PixelStatistics> parts(range_count(shape.rows),
                                       PixelStatistics(x.size(1)));
    for_each_range(shape.rows, [&](size_t worker, Range range) {
      parts[worker].add(part_of(shape, range),
                        x.data_ptr<float>() + range.begin * shape.channels);
    });
    for (size_t i = 1; i < parts.size(); ++i) parts[0].merge(parts[i]);
    map = own_.map_of_batch(parts[0], context);
  } else {
    map = own_.map_of_running();
  }
  const at::Tensor y = normalise(
      x, map, relu_, addend.defined() ? channels_last(addend) : at::Tensor());
  if (saved) {
    saved->tensors = {x, y, map.values};
    saved->gradient_sums = at::Tensor();
    saved->training = context.training;
  }
  return y;
}

at::Tensor FastNorm::backward_sum(const at::Tensor& gradient, Saved& saved,
                                  const InputGradient& input,
                                  AddendGradient* addend) {
  const at::Tensor x = saved.tensors.at(0);
  const NormMap map{saved.tensors.at(2)};
  const ResultGradient dy =
      result_gradient(channels_last(gradient), x, saved.tensors.at(1), map,
                      relu_, saved.gradient_sums, addend);
  saved.tensors.clear();
  const NormRows shape = norm_rows(x, dy.relu);
  const NormGradientMap dmap =
      own_.add_gradient(map, dy.sums, shape.rows, saved.training);
  if (!input.need_dx) return {};
  const at::Tensor dx = at::empty_like(x, at::MemoryFormat::ChannelsLast);
  for_each_range(shape.rows, [&](size_t, Range range) {
    const int64_t at = range.begin * shape.channels;
    norm_kernels().input_gradient(
        part_of(shape, range), dy.values.data_ptr<float>() + at,
        x.data_ptr<float>() + at,
        dy.relu ? dy.y.data_ptr<float>() + at : nullptr, dmap.scale.data(),
        dmap.slope.data(), dmap.offset.data(), dx.data_ptr<float>() + at);
  });
  if (addend != nullptr && addend->of_input) dx.add_(addend->values);
  const at::Tensor& onto = input.target.onto;
  return onto.defined() ? at::Tensor(onto).add_(dx) : dx;
}

EndNorm FastNorm::end_norm(Saved& saved) {
  if (!relu_ || saved.tensors.empty()) return {};
  return {saved.tensors.at(0), saved.tensors.at(2)[0], &saved.gradient_sums};
}

}  // namespace dtune
