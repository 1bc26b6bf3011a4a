// What the study may still spend. Counts along, so every question is O(1) in
// the number of trials.
#pragma once

#include <cstdint>
#include <string>

#include "dtune/study/study.h"

namespace dtune {

// Not thread-safe. Trials that said, or were found, to be invalid do not count.
class BudgetMeter {
 public:
  // Counts what a loaded study has spent already.
  BudgetMeter(const BudgetSpec& budget, const Study& study);

  void trial_started() { ++trials_; }
  void trial_was_invalid() { --trials_; }
  void step_done() { ++steps_; }
  int64_t trials() const { return trials_; }
  int64_t steps() const { return steps_; }

  bool trials_left() const {
    return budget_.trials == 0 || trials_ < budget_.trials;
  }
  // "the budget of 3 trials is spent".
  std::string why_no_trials() const;
  // Steps that may be granted in addition to `outstanding`, those granted but
  // not done; INT64_MAX: no limit.
  int64_t steps_left(int64_t outstanding) const;
  bool steps_spent() const {
    return budget_.steps > 0 && steps_ >= budget_.steps;
  }
  bool time_spent(double searched_seconds) const;

 private:
  BudgetSpec budget_;
  int64_t trials_ = 0;
  int64_t steps_ = 0;
};

}  // namespace dtune
