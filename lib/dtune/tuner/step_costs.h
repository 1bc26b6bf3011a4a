// What a step costs at a point, learnt from the steps so far.
#pragma once

#include <span>
#include <vector>

#include "dtune/study/study.h"

namespace dtune {

// A ridge regression of the logarithm of a trial's mean seconds a step
// (checkpoint included; over step_share, where steps train on shares of the
// images) on its place in the unit cube. Where all steps take
// about as long (within a tenth), every point costs the same, so that the
// clock's noise changes no decision. In deterministic studies no clock is read:
// every step costs the same.
class StepCosts {
 public:
  // The study outlives it.
  explicit StepCosts(const Study& study);

  // ln of the expected seconds of a step, over the mean of the trials.
  double log_relative(std::span<const double> unit) const;
  // ln of what the steps after `from` up to `to` cost at any point, in steps on
  // all images; 0 where every step is one of those.
  double log_share(int from, int to) const;

 private:
  std::vector<double> slope_;  // empty: every point costs the same
  std::vector<double> centre_;
  const Study& study_;
};

}  // namespace dtune
