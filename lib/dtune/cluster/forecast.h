// How far a study is and how long it still takes, the final training included.
#pragma once

#include <optional>
#include <vector>

#include "dtune/study/study.h"

namespace dtune {

// Seconds.
struct TimeRange {
  double low = 0;
  double high = 0;
};

struct Forecast {
  double done = 0;                // 0..1; never less than it was before
  std::optional<TimeRange> left;  // empty: nothing can be said yet
};

// What is known beside the study.
struct ForecastFacts {
  double elapsed = 0;           // seconds since the study began, all sessions
  double session = 0;           // of them, of this coordinator's search
  int64_t session_steps = 0;    // of the search, done in this session
  int trials_at_once = 1;       // as many as the slots take
  bool searching = true;        // else the final training is under way
  TrialId best = 0;             // whose point is trained at the end
  std::vector<TrialId> finals;  // under way
  int final_steps = 0;          // of one final training; 0: there is none
  int final_known = 0;          // of them, those that the search has done
};

// Not thread-safe. Costs O(trials) an estimate.
//
// The search is taken to go on at the speed that it had in this session: each
// trial that is still to be started takes as many steps as those so far (low)
// or runs to the horizon, as all that are open (high); budgets of steps and of
// time cap both. Where steps are levels, it is their images that count.
class Forecaster {
 public:
  Forecast estimate(const Study& study, const ForecastFacts& facts);

 private:
  double done_ = 0;
};

}  // namespace dtune
