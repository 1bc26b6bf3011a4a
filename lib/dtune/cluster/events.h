// What the coordinator tells its observers: the live table, plain lines,
// JSON lines, tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dtune/study/study.h"

namespace dtune {

struct SlotStatus {
  std::string node;
  int slot = 0;
  TrialId trial = 0;  // 0: idle
  std::string phase;  // "starting", "training", "idle", "lost"
  double seconds_since_report = 0;
  double progress = 0;  // of the step in flight, 0..1
  double samples_per_second = 0;
  uint64_t resident_bytes = 0;
  int together = 1;  // trials of its slot that are computed at the same time
  // Of a trial that takes several slots:
  int member = -1;        // -1: it has this one alone
  bool present = true;    // its gang counts on it
  double share = 0;       // of a batch, 0..1
  double wait_share = 0;  // of a round: waiting for others
  int64_t late = 0;       // rounds that went on without it
  double staleness = -1;  // mean, of a parameter server's worker; -1: none
};

struct ClusterStatus {
  std::vector<SlotStatus> slots;
  // Of the search, over all sessions, and of the final training.
  double elapsed_seconds = 0;
  double remaining_low = -1;  // seconds, an estimate; -1: unknown
  double remaining_high = -1;
  double done_fraction = 0;  // of all that is to be done, 0..1; only grows
};

// Called on the coordinator's thread; must return quickly and not throw.
// Reports and changes of state come once they are committed, in their order.
class ProgressSink {
 public:
  virtual ~ProgressSink() = default;
  virtual void on_started(const Study& /*study*/) {}
  // In both `trial` is as it was then, and its curve has the last step alone.
  virtual void on_report(const Study& /*study*/, const Trial& /*trial*/,
                         const StepReport& /*report*/) {}
  // The trial's state, reason and detail have changed.
  virtual void on_state(const Study& /*study*/, const Trial& /*trial*/) {}
  // Something that the user should read: a lost node, a full disk, a retry.
  virtual void on_notice(const std::string& /*text*/) {}
  // Something without which the study cannot go on, as space on a disk: said
  // also where notices are not wanted.
  virtual void on_alert(const std::string& text) { on_notice(text); }
  // About ten times a second while the study runs.
  virtual void on_tick(const Study& /*study*/,
                       const ClusterStatus& /*status*/) {}
  // `best`: the trial whose point is shipped; 0: none.
  virtual void on_finished(const Study& /*study*/, TrialId /*best*/) {}
};

}  // namespace dtune
