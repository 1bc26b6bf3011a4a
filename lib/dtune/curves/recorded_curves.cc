#include "dtune/curves/recorded_curves.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "dtune/base/error.h"
#include "dtune/base/order_statistic.h"
#include "dtune/curves/interpolation.h"

namespace dtune {
namespace {

// Between recorded epochs curves are straighter over the logarithm.
AxisPlace place_in_time(const std::vector<int>& epochs, int step) {
  if (epochs.size() < 2 || step <= epochs.front()) return {0, 0};
  if (step >= epochs.back()) return {epochs.size() - 2, 1};
  const auto above = std::upper_bound(epochs.begin(), epochs.end(), step);
  const size_t i = static_cast<size_t>(above - epochs.begin()) - 1;
  return {i, std::log(double(step) / epochs[i]) /
                 std::log(double(epochs[i + 1]) / epochs[i])};
}

// Each value with its neighbours on an axis, by weights of 1, 2 and 1.
void smooth_axis(std::vector<float>& table, size_t stride, size_t size) {
  const std::vector<float> source = table;
  for (size_t i = 0; i < table.size(); ++i) {
    const size_t place = i / stride % size;
    float sum = 2 * source[i];
    float weight = 2;
    if (place > 0) sum += source[i - stride], ++weight;
    if (place + 1 < size) sum += source[i + stride], ++weight;
    table[i] = sum / weight;
  }
}

}  // namespace

AxisPlace place_on(const std::vector<double>& axis, double value) {
  if (axis.size() < 2 || value <= axis.front()) return {0, 0};
  if (value >= axis.back()) return {axis.size() - 2, 1};
  const auto above = std::upper_bound(axis.begin(), axis.end(), value);
  const size_t i = static_cast<size_t>(above - axis.begin()) - 1;
  return {i, (value - axis[i]) / (axis[i + 1] - axis[i])};
}

double RecordedCurves::value(const CubePoint& point, int step) const {
  return interpolate(values, point, step);
}

double RecordedCurves::repeat_value(size_t index, const CubePoint& point,
                                    int step) const {
  return interpolate(repeats[index], point, step);
}

double RecordedCurves::interpolate(const std::vector<float>& table,
                                   const CubePoint& point, int step) const {
  DTUNE_CHECK(step >= 1);
  double sum = 0;
  for_each_corner<4>(
      {place_on(log10_lr, point.log10_lr), place_on(log10_l2, point.log10_l2),
       place_on(dropout, point.dropout), place_in_time(epochs, step)},
      {log10_lr.size(), log10_l2.size(), dropout.size(), epochs.size()},
      [&](size_t at, double weight) { sum += weight * double{table[at]}; });
  return sum;
}

double RecordedCurves::worth_value(size_t index, const CubePoint& point,
                                   int step) const {
  return interpolate(worth[index], point, step);
}

void RecordedCurves::weigh() {
  worth.clear();
  if (repeats.size() < 2) return;
  for (size_t r = 0; r < repeats.size(); ++r) {
    worth.push_back(smoothed_table(others_mean(r), false));
  }
}

RecordedCurves RecordedCurves::smoothed() const {
  RecordedCurves result = *this;
  if (repeats.size() > 1) result.values = smoothed_table(values, false);
  return result;
}

std::vector<float> RecordedCurves::others_mean(size_t index) const {
  std::vector<float> mean(values.size());
  for (size_t r = 0; r < repeats.size(); ++r) {
    if (r == index) continue;
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += repeats[r][i];
  }
  for (float& value : mean) value /= static_cast<float>(repeats.size() - 1);
  return mean;
}

std::vector<float> RecordedCurves::smoothed_table(std::vector<float> table,
                                                  bool over_lr) const {
  const size_t l2_stride = dropout.size() * epochs.size();
  if (over_lr) {
    smooth_axis(table, log10_l2.size() * l2_stride, log10_lr.size());
  }
  smooth_axis(table, l2_stride, log10_l2.size());
  smooth_axis(table, epochs.size(), dropout.size());
  return table;
}

// What each of these tables, one a training, names as the best is worth.
double RecordedCurves::worth_of(
    const std::vector<std::vector<float>>& named_by) const {
  double sum = 0;
  for (size_t r = 0; r < repeats.size(); ++r) {
    const std::vector<float>& by = named_by[r];
    const auto named = std::max_element(by.begin(), by.end()) - by.begin();
    sum += double{worth[r][size_t(named)]};
  }
  return sum / double(repeats.size());
}

double RecordedCurves::best() const {
  if (worth.empty()) {
    return double{*std::max_element(values.begin(), values.end())};
  }
  std::vector<std::vector<float>> smooth;
  for (const std::vector<float>& repeat : repeats) {
    smooth.push_back(smoothed_table(repeat, true));
  }
  return std::max(worth_of(repeats), worth_of(smooth));
}

double RecordedCurves::median_final() const {
  return double{dtune::median_final(values, epochs.size())};
}

float median_final(const std::vector<float>& values, size_t times) {
  std::vector<float> final_values;
  for (size_t i = times - 1; i < values.size(); i += times) {
    final_values.push_back(values[i]);
  }
  return upper_median(std::move(final_values));
}

}  // namespace dtune
