// The objective as the surrogate sees it.
#pragma once

#include <span>

#include "dtune/study/objective_spec.h"

namespace dtune {

// A rising map of objective values (with the sign of study.h: larger is better)
// to the range in which recorded studies live: the best about .87, the median
// about .12 below it.
//
// Metrics that are maximized and stay within [0, 1] (accuracy, AUC, F1) are
// taken as they are. Anything else (losses, rewards) is moved and scaled by the
// best and the median of the values, and cut a long way below the median, so
// that a diverged loss does not set the scale. A value clearly above the best
// asks for another scale.
class MetricScale {
 public:
  MetricScale() = default;
  // REQUIRES: values are finite.
  MetricScale(const ObjectiveSpec& objective, std::span<const double> values);

  bool identity() const { return identity_; }
  double to_model(double value) const;
  double to_metric(double y) const;
  // to_model(value) = offset + slope value, where it is not cut.
  double slope() const;
  double offset() const;
  // The value can be mapped without another scale.
  bool covers(double value) const;

 private:
  bool identity_ = true;
  double best_ = 0;
  double spread_ = 1;
};

}  // namespace dtune
