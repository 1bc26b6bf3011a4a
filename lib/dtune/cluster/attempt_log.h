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

  // A trial had nothing to report; true: so many in a row that the search
  // should end.
  bool came_to_nothing() { return ++fruitless_ >= kMostFruitless; }
  void bore_fruit() { fruitless_ = 0; }
  int fruitless() const { return fruitless_; }

 private:
  static constexpr int kMostFruitless = 100;

  const int retries_;
  std::map<TrialId, AttemptHistory> histories_;
  int fruitless_ = 0;
};

}  // namespace dtune
