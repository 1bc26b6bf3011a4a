// How the attempts of each trial ended, and how many trials in a row came to
// nothing.
#pragma once

#include <map>

#include "dtune/cluster/retry_policy.h"

namespace dtune {

// Not thread-safe.
class AttemptLog {
 public:
  explicit AttemptLog(int retries) : retries_(retries) {}

  // A loaded trial has failed that often.
  void recover(const Trial& trial) {
    histories_[trial.id].failures = trial.failures;
  }
  // An attempt failed; trial.failures counts it. True: it may be tried again.
  bool failed(const Trial& trial, Reason cause, int exit_code);

  // The trial's node was lost, which is not its failure. False where it has
  // happened so often that the trial may be what ends nodes.
  bool node_lost(TrialId trial) { return ++nodes_lost_[trial] <= kMostLost; }

  // A trial had nothing to report; true: so many in a row that the search
  // should end.
  bool came_to_nothing() { return ++fruitless_ >= kMostFruitless; }
  void bore_fruit() { fruitless_ = 0; }
  int fruitless() const { return fruitless_; }

 private:
  static constexpr int kMostFruitless = 100;
  static constexpr int kMostLost = 10;

  const int retries_;
  std::map<TrialId, AttemptHistory> histories_;
  std::map<TrialId, int> nodes_lost_;
  int fruitless_ = 0;
};

}  // namespace dtune
