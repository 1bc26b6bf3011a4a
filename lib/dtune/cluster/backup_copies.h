// Trials that straggle: a copy on an idle slot, first to finish wins (Dean and
// Ghemawat 2004, OSDI, section 3.6: backup tasks). Says which trial gets one
// and keeps which has; leases are the caller's.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "dtune/cluster/agent_registry.h"
#include "dtune/study/study.h"

namespace dtune {

// A second lease of a trial.
struct BackupCopy {
  size_t slot = 0;
  Attempt attempt = 0;
};

// Not thread-safe. References outlive this.
class BackupCopies {
 public:
  BackupCopies(const Study& study, const Clock& clock)
      : study_(study), clock_(clock) {}

  // What the trial's step should take, in seconds: what its own took, else the
  // slowest of the others' usual ones, since trials may be of different size.
  double expected_step(const Trial& trial) const;
  // How much longer the step in flight in this slot, which the trial has alone,
  // takes than a copy of it would, in seconds; 0: no copy pays.
  double gain(const Trial& trial, const RegisteredSlot& slot) const;

  void add(TrialId id, const BackupCopy& copy) { copies_[id] = copy; }
  bool has(TrialId id) const { return copies_.contains(id); }
  bool is(TrialId id, Attempt attempt) const;
  // Forgets it; empty where there was none.
  std::optional<BackupCopy> take(TrialId id);

 private:
  // The median of a trial's step times, in seconds, each over its share of the
  // images; and of how many steps.
  struct UsualStep {
    int steps = 0;
    double seconds = 0;
  };
  double usual_step(const Trial& trial) const;

  const Study& study_;
  const Clock& clock_;
  std::map<TrialId, BackupCopy> copies_;
  // Computed again only where there are new reports: thousands of slots ask at
  // every turn of the loop.
  mutable std::map<TrialId, UsualStep> usual_;
  mutable int64_t slowest_at_ = -1;  // reports of the study
  mutable double slowest_ = 0;
};

}  // namespace dtune
