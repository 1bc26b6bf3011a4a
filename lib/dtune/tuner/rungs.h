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

// One ladder of rungs, which brackets of trials climb apart from each other:
// those of bracket k begin at rung k. Of ASHA all are in bracket 0; Hyperband
// has a bracket for each rung.
// Reads nothing but what it is given; all of O(trials log trials) or less.
class Rungs {
 public:
  // `steps`: of the rungs, rising; the last is the horizon.
  // `shares`: of the trials that each bracket gets, in any unit.
  // REQUIRES: no more brackets than rungs.
  Rungs(std::vector<int> steps, int eta, std::vector<double> shares = {1});

  const std::vector<int>& steps() const { return steps_; }
  size_t last() const { return steps_.size() - 1; }
  int eta() const { return eta_; }

  size_t brackets() const { return shares_.size(); }
  // The share of the trials that a bracket gets; all of them sum to 1.
  double share(size_t bracket) const { return shares_[bracket]; }
  // A trial's bracket follows from its number alone, so that any part of a
  // study that looks at it finds the same one. Of the first n trials each
  // bracket has its share, to within a few.
  size_t bracket(TrialId trial) const;
  int first_step(TrialId trial) const { return steps_[bracket(trial)]; }

  // The rung whose step the trial has reached; empty below the first of its
  // bracket.
  std::optional<size_t> reached(const Trial& trial) const;
  // The next rung's step.
  int next_step(const Trial& trial) const;

  // All trials of the bracket that have a result at the rung or failed on the
  // way to it, best first.
  // REQUIRES: bracket <= rung.
  std::vector<RungResult> results(const Study& study, const CurveBook& curves,
                                  size_t bracket, size_t rung) const;

  // How many of so many go on.
  size_t quota(size_t members) const { return members / size_t(eta_); }

  // Whether the trial is among those of its rung that go on.
  bool goes_on(const std::vector<RungResult>& results, TrialId trial) const;

 private:
  bool counts(const Trial& trial, size_t bracket, size_t rung) const;

  std::vector<int> steps_;
  int eta_;
  std::vector<double> shares_;
};

}  // namespace dtune
