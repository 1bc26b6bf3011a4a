// What the coordinator writes down, and its behaviour when it cannot: every
// change goes to the store and to the observers, in that order.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/cluster/events.h"
#include "dtune/cluster/protocol.h"
#include "dtune/comm/socket.h"
#include "dtune/store/trial_store.h"

namespace dtune {

// An acknowledgement that may be sent, as its report is committed.
struct CommittedReport {
  size_t slot = 0;
  control::Ack ack;
};

// Events, decisions and reports carry their place in the study's own order
// (sessions, StepReport::sequence, after_report, ...), so that the study can be
// replayed; what belongs together is committed together (Together).
//
// Not thread-safe, but commits come from the store's thread. Nothing blocks but
// flush() and show_all(). Errors of the store never leave it: writing is then
// `blocked`, the store keeps what it was given, and retry() finds out when it
// goes on.
class Records {
 public:
  Records(Study& study, TrialStore& store, ProgressSink& sink,
          const Clock& clock);

  // Everything that is recorded while one lives is committed together or not
  // at all. They nest.
  class Together {
   public:
    explicit Together(Records& records) : store_(records.store_) {
      store_.begin_group();
    }
    ~Together() { store_.end_group(); }
    Together(const Together&) = delete;
    Together& operator=(const Together&) = delete;

   private:
    TrialStore& store_;
  };

  // The coordinator goes to work on the study, or goes on with it.
  void begin_session();
  // Changes the trial's state, in memory, in the store and for the viewer.
  void change(Trial& trial, TrialState state, Reason reason,
              const std::string& detail);
  void save(const Trial& trial);
  // Counts as the next decision of the study. The trial's target_step is what
  // the decision makes of it.
  void decide(const Trial& trial, DecisionMaker maker, const char* action,
              const std::string& why);
  // Asked for what the tuner goes by whenever it has decided about a trial; the
  // step is that up to which the trial is to run, or the horizon.
  using AskBelief = std::function<Belief(const Trial& trial, int step)>;
  void set_belief(AskBelief belief) { belief_ = std::move(belief); }
  void put_rank_rounds(const std::vector<RankRound>& ranks);
  // The sequence number of a report that is taken in now.
  int64_t next_sequence() { return ++study_.reports; }
  // `ack` comes out of committed() once the report is safe.
  void report(Trial& trial, const StepReport& report,
              const CommittedReport& ack);
  // A report whose acknowledgement no process waits for.
  void copy_report(const Trial& trial, const StepReport& report);
  // The study's own row: state, time searched, budgets, final result.
  void save_study();
  void set_final_json(std::string json) { row_.final_json = std::move(json); }
  const std::string& final_json() const { return row_.final_json; }
  void notice(const std::string& text) { sink_.on_notice(text); }
  void alert(const std::string& text) { sink_.on_alert(text); }
  // A full disk was reported to the user: not again for the database.
  void set_disk_full(bool known) { disk_full_ = known; }

  // Is notified when committed() has something.
  Wakeup& wakeup() { return commits_->wakeup; }
  // What was committed since the last call: shows it to the observers, and
  // returns the reports among it.
  std::vector<CommittedReport> committed();

  // So much is not committed yet that new work should wait: what is recorded
  // next is committed after it.
  bool behind() const { return unshown_.size() > kMuch; }

  bool blocked() const { return blocked_; }
  // Call about once a second while blocked.
  void retry();
  // Waits until all is committed; false: it is not (see the notice).
  bool flush();
  // What waits to be shown is committed and shown now; may block as flush().
  void show_all();

 private:
  static constexpr size_t kMuch = 400;  // calls; some 20 ms of writing

  // Outlives this where a commit is under way: shared with the callbacks.
  struct Commits {
    std::mutex mutex;
    std::vector<CommittedReport> done;  // guarded by mutex
    size_t shown = 0;                   // likewise: of unshown_, may be
    Wakeup wakeup;
  };
  template <class Write>
  bool guarded(Write write);
  void block(const std::string& why);
  void show(std::function<void()> call);
  void show_committed();

  Study& study_;
  TrialStore& store_;
  ProgressSink& sink_;
  const Clock& clock_;
  StudyRow row_;
  std::shared_ptr<Commits> commits_ = std::make_shared<Commits>();
  // Calls of the sink whose records are on their way to the disk.
  std::deque<std::function<void()>> unshown_;
  AskBelief belief_;  // may be empty
  bool blocked_ = false;
  bool said_ = false;  // that it is
  bool disk_full_ = false;
};

}  // namespace dtune
