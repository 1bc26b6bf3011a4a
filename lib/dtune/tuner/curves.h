// What schedulers ask of all curves at once, kept up to date as reports come
// in: the best value and the running mean up to a step.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dtune/study/study.h"

namespace dtune {

// Values have the sign of the objective: larger is better; steps without a
// finite value are passed over. Not thread-safe.
//
// A cache, not a state: update() reads again every trial that has another
// seed, attempt or number of steps than before (an attempt's steps are never
// rewritten), and everything if the study is another one.
class CurveBook {
 public:
  // O(trials) plus the new reports.
  void update(const Study& study);

  // Over the steps 1 .. step; empty where none of them has a value.
  // REQUIRES: update() has seen the trial.
  std::optional<double> best_until(TrialId trial, int step) const;
  std::optional<double> mean_until(TrialId trial, int step) const;

 private:
  struct Entry {
    uint64_t seed = 0;
    Attempt attempt = -1;
    int steps = 0;
    // Of the steps with a value: the step, and the two up to it.
    std::vector<int> at;
    std::vector<double> best;
    std::vector<double> mean;
  };
  static void read(const ObjectiveSpec& objective, const Trial& trial,
                   Entry& entry);
  static std::optional<double> last_until(const Entry& entry,
                                          const std::vector<double>& values,
                                          int step);

  std::string study_id_;
  std::vector<Entry> entries_;
};

// What counts as noise in what a trial of an accuracy has gained since its first
// step, as a share of what it lacked then.
constexpr double kNoGain = 0.02;

// Whether the last step is better than the first by more than `noise`, a share of
// what the first lacked (of metrics in [0, 1]; of others by anything). A trial
// whose first step has no value has gained by any; one step alone is no gain.
// REQUIRES: a step.
bool has_gained(const ObjectiveSpec& objective, const Trial& trial,
                double noise);

// Trials were trained for two steps and more, and none has_gained more than
// kNoGain. They diverge, or their rates are too small.
bool nothing_learnt(const Study& study);

// A slot has a trial of the search, or is about to get one.
bool any_active(const Study& study);

// A paused trial below its target (Ctrl-C, a lost machine) or below `target`,
// the oldest first; it goes on before anything else is begun. Null if none.
const Trial* interrupted_trial(const Study& study, int target = 0);

}  // namespace dtune
