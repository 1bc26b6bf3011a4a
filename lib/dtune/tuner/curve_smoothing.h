// What the last report of a curve would be without its noise.
//
// A model that looks at a trial at the steps of a ladder would otherwise know one
// noisy report of each look, and nothing of those in between. The reports later
// than a third of the last step are taken for
//   y = a + f(s) + noise,   s = ln t,
// with a flat and f a Brownian motion or, with a normal slope at first, an
// integrated one. The motion's variances relative to the noise's are on a grid,
// the noise's own is integrated out; at each point of the grid a Kalman filter
// has the last value and the likelihood, by which the values are averaged (Durbin
// and Koopman 2012, "Time series analysis by state space methods", sections 3.2,
// 4.3 and 5.2). A curve without noise stays as it is: there the motion explains
// everything. So does a last report that is off by more than four deviations of
// those before it (an addition to the source).
#pragma once

#include <span>

#include "dtune/study/study.h"

namespace dtune {

struct CurveReport {
  int step = 1;  // >= 1, ascending over a curve
  double value = 0;
};

// In the unit of the reports; the last one as it is where fewer than five are
// late enough. Some 10 us for 51 reports. REQUIRES: not empty, finite.
double smoothed_last(std::span<const CurveReport> curve);

// Of the objective up to `step`, larger being better. REQUIRES: a report up to
// there has it.
double smoothed_objective(const ObjectiveSpec& objective, const Trial& trial,
                          int step);

}  // namespace dtune
