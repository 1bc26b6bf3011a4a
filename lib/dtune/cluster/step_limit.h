// How long a step may take before its process is taken to hang. Where the
// recipe says nothing (limits.step_time), the steps seen so far say it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/study/trial.h"

namespace dtune {

// Not thread-safe.
//
// The automatic limit is the longest step of the study times the spread of all
// (longest by median), ten at least: where steps differ a thousandfold, the
// next may too. A step that neither computes nor writes gets kQuiet at least,
// any other kBusy; before a step was seen, an hour. A trial whose step was
// ended gets twice as long the next time.
class StepLimit {
 public:
  static constexpr Duration kQuiet = std::chrono::minutes(2);
  static constexpr Duration kBusy = std::chrono::minutes(10);

  explicit StepLimit(Duration configured);  // 0: automatic

  void add(double seconds);  // a step was finished

  // Why a step that has taken so long, and has neither computed nor written for
  // as long as `silent`, is taken to hang: names the rule. "": it is not.
  std::string reason_to_end(TrialId trial, Duration taken,
                            Duration silent) const;
  // Seconds of the longest of the latest steps; 0: none was seen.
  double longest() const;
  // A step of the trial was ended by the limit.
  void ended(TrialId trial);

 private:
  Duration limit(TrialId trial, Duration least) const;

  const Duration configured_;
  std::vector<double> seen_;  // the latest, in turn
  size_t next_ = 0;
  double longest_ = 0;
  double measured_ = 0;  // seconds; 0: no step was seen
  std::map<TrialId, int> doublings_;
};

}  // namespace dtune
