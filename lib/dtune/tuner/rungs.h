// How the trials of a study stand at the rungs of successive halving.
#pragma once

#include <vector>

#include "dtune/tuner/curves.h"

namespace dtune {

// A trial's place at a rung.
struct RungResult {
  TrialId trial = 0;
  double value = 0;  // -infinity without a finite value
};

// Reads nothing but what it is given; all of O(trials log trials) or less.
class Rungs {
 public:
  // `steps`: of the rungs, rising; the last is the horizon.
  Rungs(std::vector<int> steps, int eta);

  const std::vector<int>& steps() const { return steps_; }
  size_t last() const { return steps_.size() - 1; }

  // The rung whose step the trial has reached; empty below the first.
  std::optional<size_t> reached(const Trial& trial) const;
  // The next rung's step.
  int next_step(const Trial& trial) const;

  // All trials that have a result at the rung or failed on the way to it, best
  // first.
  std::vector<RungResult> results(const Study& study, const CurveBook& curves,
                                  size_t rung) const;

  // How many of so many go on.
  size_t quota(size_t members) const { return members / size_t(eta_); }

  // Whether the trial is among those of its rung that go on.
  bool goes_on(const std::vector<RungResult>& results, TrialId trial) const;

 private:
  bool counts(const Trial& trial, size_t rung) const;

  std::vector<int> steps_;
  int eta_;
};

}  // namespace dtune
