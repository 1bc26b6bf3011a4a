// What the coordinator writes down, and its behaviour when it cannot: every
// change goes to the store and to whoever watches, in that order.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/cluster/events.h"
#include "dtune/cluster/protocol.h"
#include "dtune/cluster/socket.h"
#include "dtune/store/trial_store.h"

namespace dtune {

// An acknowledgement that may be sent, as its report is committed.
struct CommittedReport {
  size_t slot = 0;
  wire::Ack ack;
};

// Not thread-safe, but commits come from the store's thread. Nothing blocks but
// flush(). Errors of the store never leave it: writing is then `blocked`, the
// store keeps what it was given, and retry() finds out when it goes on.
class Records {
 public:
  Records(Study& study, TrialStore& store, ProgressSink& sink,
          const Clock& clock);

  // Changes the trial's state, in memory, in the store and for the viewer.
  void change(Trial& trial, TrialState state, Reason reason,
              const std::string& detail);
  void save(const Trial& trial);
  // Counts as the next decision of the study.
  void decide(const Trial& trial, const char* action, const std::string& why);
  // `ack` comes out of committed() once the report is safe.
  void report(const Trial& trial, const StepReport& report,
              const CommittedReport& ack);
  // A report without anybody who waits for its acknowledgement.
  void copy_report(const Trial& trial, const StepReport& report);
  // The study's own row: state, time searched, budgets, final result.
  void save_study();
  void set_final_json(std::string json) { row_.final_json = std::move(json); }
  const std::string& final_json() const { return row_.final_json; }
  void notice(const std::string& text) { sink_.on_notice(text); }

  // Is notified when committed() has something.
  Wakeup& wakeup() { return commits_->wakeup; }
  std::vector<CommittedReport> committed();

  bool blocked() const { return blocked_; }
  // Call about once a second while blocked.
  void retry();
  // Waits until all is committed; false: it is not (see the notice).
  bool flush();

 private:
  // Outlives this where a commit is under way: shared with the callbacks.
  struct Commits {
    std::mutex mutex;
    std::vector<CommittedReport> done;  // guarded by mutex
    Wakeup wakeup;
  };
  template <class Write>
  bool guarded(Write write);

  Study& study_;
  TrialStore& store_;
  ProgressSink& sink_;
  const Clock& clock_;
  StudyRow row_;
  std::shared_ptr<Commits> commits_ = std::make_shared<Commits>();
  bool blocked_ = false;
};

}  // namespace dtune
