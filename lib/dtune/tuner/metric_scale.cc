#include "dtune/tuner/metric_scale.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "dtune/base/order_statistic.h"

namespace dtune {
namespace {

constexpr double kTop = 0.87;
constexpr double kSpread = 0.12;
constexpr double kLowest = -30;  // spreads below the best
constexpr double kHighest = 10;  // and above it: the scale knew nothing yet
// Above the best by more there is no room left below 1.
constexpr double kCovered = 1;

bool within_unit(double value) { return value >= 0 && value <= 1; }

}  // namespace

MetricScale::MetricScale(const ObjectiveSpec& objective,
                         std::span<const double> values) {
  identity_ = objective.goal == Goal::maximize &&
              std::all_of(values.begin(), values.end(), within_unit);
  if (identity_ || values.empty()) return;
  const double middle =
      upper_median(std::vector<double>(values.begin(), values.end()));
  best_ = *std::max_element(values.begin(), values.end());
  // One value, or equal ones: a tenth of its size is as good a guess as any.
  const double size = std::max(std::abs(best_), 1e-12);
  spread_ = std::clamp(best_ - middle, (values.size() < 3 ? 0.1 : 1e-9) * size,
                       std::numeric_limits<double>::max());
}

bool MetricScale::covers(double value) const {
  if (identity_) return within_unit(value);
  return (value - best_) / spread_ <= kCovered;
}

double MetricScale::to_model(double value) const {
  if (identity_) return value;
  return kTop +
         kSpread * std::clamp((value - best_) / spread_, kLowest, kHighest);
}

double MetricScale::to_metric(double y) const {
  return identity_ ? y : best_ + spread_ * (y - kTop) / kSpread;
}

double MetricScale::slope() const { return identity_ ? 1 : kSpread / spread_; }

double MetricScale::offset() const {
  return identity_ ? 0 : kTop - best_ * slope();
}

}  // namespace dtune
