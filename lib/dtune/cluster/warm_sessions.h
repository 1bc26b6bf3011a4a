// Paused trials that a worker keeps in memory, least recently used first out.
#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "dtune/study/trial_runner.h"

namespace dtune {

// Not thread-safe.
class WarmSessions {
 public:
  // Bounded by the count alone; `max_count` 0: by bytes.
  void set_limits(uint64_t max_bytes, int max_count);

  // Keeps a session that was left under `attempt`; may drop it or others to
  // stay within the limits.
  void put(TrialId trial, Attempt attempt,
           std::unique_ptr<TrialSession> session);
  // The session of the trial if it was left under the attempt before `attempt`
  // (else another worker ran the trial in between and it is out of date) after
  // exactly `steps`; null otherwise. Forgets the trial either way.
  std::unique_ptr<TrialSession> take(TrialId trial, Attempt attempt, int steps);
  void forget(TrialId trial);
  void clear() { entries_.clear(); }
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    TrialId trial;
    Attempt attempt;
    uint64_t bytes;
    std::unique_ptr<TrialSession> session;
  };
  void trim();

  uint64_t max_bytes_ = 0;
  int max_count_ = 0;
  std::list<Entry> entries_;  // most recently used first
};

}  // namespace dtune
