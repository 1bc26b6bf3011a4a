#include "dtune/simulate/recorded_curves.h"

#include <algorithm>

#include "dtune/base/error.h"

namespace dtune {
namespace {

struct Place {
  size_t index = 0;
  double weight = 0;  // of index + 1
};

Place locate(const std::vector<double>& axis, double value) {
  if (axis.size() < 2 || value <= axis.front()) return {0, 0};
  if (value >= axis.back()) return {axis.size() - 2, 1};
  const auto above = std::upper_bound(axis.begin(), axis.end(), value);
  const size_t i = static_cast<size_t>(above - axis.begin()) - 1;
  return {i, (value - axis[i]) / (axis[i + 1] - axis[i])};
}

}  // namespace

double RecordedCurves::value(const CubePoint& point, int step) const {
  DTUNE_CHECK(step >= 1 && step <= steps);
  const Place places[] = {locate(log10_lr, point.log10_lr),
                          locate(log10_l2, point.log10_l2),
                          locate(dropout, point.dropout)};
  const size_t sizes[] = {log10_lr.size(), log10_l2.size(), dropout.size()};
  double sum = 0;
  for (unsigned corner = 0; corner < 8; ++corner) {
    double weight = 1;
    size_t at = 0;
    for (unsigned axis = 0; axis < 3; ++axis) {
      const bool upper = ((corner >> axis) & 1U) != 0;
      weight *= upper ? places[axis].weight : 1 - places[axis].weight;
      at = at * sizes[axis] + places[axis].index + (upper ? 1 : 0);
    }
    if (weight == 0) continue;
    sum += weight *
           double{values[at * size_t(steps) + static_cast<size_t>(step) - 1]};
  }
  return sum;
}

double RecordedCurves::best() const {
  return double{*std::max_element(values.begin(), values.end())};
}

double RecordedCurves::median_final() const {
  std::vector<float> final_values;
  for (size_t i = size_t(steps) - 1; i < values.size(); i += size_t(steps)) {
    final_values.push_back(values[i]);
  }
  const auto middle = final_values.begin() +
                      static_cast<std::ptrdiff_t>(final_values.size() / 2);
  std::nth_element(final_values.begin(), middle, final_values.end());
  return double{*middle};
}

}  // namespace dtune
