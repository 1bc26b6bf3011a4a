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

double RecordedCurves::best() const {
  return double{*std::max_element(values.begin(), values.end())};
}

double RecordedCurves::median_final() const {
  std::vector<float> final_values;
  for (size_t i = epochs.size() - 1; i < values.size(); i += epochs.size()) {
    final_values.push_back(values[i]);
  }
  return double{upper_median(std::move(final_values))};
}

}  // namespace dtune
