// Decides for one gang: who is present, who does what, when a round goes on
// without somebody, and what happens after a failure. A pure machine: messages
// and the time go in, orders and events come out; no threads, no sockets.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/gang/balancer.h"
#include "dtune/gang/epoch_queue.h"
#include "dtune/gang/messages.h"
#include "dtune/gang/pace.h"
#include "dtune/gang/server.h"

namespace dtune::gang {

// For the trace.
struct GangMark {
  std::string name;
  std::map<std::string, double> counters;  // empty: an instant
};

// Rounds. Round r is handed out (working), told ready, and ends with `go`,
// which hands out round r + 1; members say ready(r + 1) only after they have
// applied r, so what a member has applied is always known to within one round.
//
//            begin            work             ready
//   joined ---------> waiting -----> working --------> ready --go--> working
//     ^                  ^              |  went on without it
//     |                  |              v        ready         go + catch_up
//     |                  +-- failed    late ----------> behind --> working
//     +-- go(last), left step          any --lost--> absent, evicted--> gone
//
// Members that wait (new, returned, failed) are taken in by a regroup: after a
// failure as soon as everybody is accounted for; otherwise at the end of the
// round, by way of a round without work, which makes sure that its update has
// been applied everywhere.
class GangMaster {
 public:
  struct Outgoing {
    int member = 0;
    Order order;
  };

  GangMaster(GangOptions options, MonoTime now);

  // What a member said. REQUIRES: 0 <= member < members(). What does not fit
  // is ignored: it is late or said twice.
  void joined(int member, MonoTime now);
  void heard(int member, MonoTime now);
  void phase(int member, const std::string& text, Duration age, MonoTime now);
  void gauge(int member, const std::string& name, double value);
  void begin(int member, const Begin& begin, MonoTime now);
  void ready(int member, const Ready& ready, MonoTime now);
  void failed(int member, const Failed& failed, MonoTime now);
  void left_step(int member, MonoTime now);
  // `why`: should it have been in the middle of a step.
  void left(int member, const std::string& why, MonoTime now);
  void lost(int member, const std::string& why, MonoTime now);
  // At least every kTick.
  void tick(MonoTime now);
  void close(const std::string& why);

  std::vector<Outgoing> take_orders();
  std::vector<GangEvent> take_events();
  std::vector<GangMark> take_marks();

  int members() const { return static_cast<int>(members_.size()); }
  bool closed() const { return stage_ == Stage::closed; }
  const GangOptions& options() const { return options_; }
  GangStatus status(MonoTime now) const;

  static constexpr Duration kTick = std::chrono::milliseconds(20);
  // Silence that counts once others have failed.
  static constexpr Duration kSilent = std::chrono::seconds(1);
  static constexpr Duration kHanging = std::chrono::seconds(30);

 private:
  enum class Stage { gathering, running, closed };
  enum class State {
    absent,
    joined,
    waiting,
    working,
    ready,
    late,
    behind,
    failed,
    gone
  };

  struct Member {
    State state = State::absent;
    bool awaited = true;     // before a step begins
    bool forked = false;     // its updates are none of this gang's
    bool lagging = false;    // gets its state from a source
    bool returning = false;  // is being taken in again
    bool unpaced = false;    // its round has more to do than others
    Begin begin;
    int64_t updates = 0;
    Work work;  // handed out last
    MonoTime handed{};
    MonoTime ready_at{};
    Phase phase_before = Phase::train;  // of the work before
    Totals totals;
    std::map<std::string, double> metrics;
    std::string failure;
    int64_t quarantine = 0;  // not taken in before this round
    // For people.
    MonoTime heard{};
    std::string phase;
    MonoTime phase_since{};
    int64_t late = 0;
    RoundTimes times;
    double wait_share = 0;
    double overhead = -1;  // seconds of a round: reduction and update
    int64_t told = 0;      // the round that it was last ready for
    std::map<std::string, double> gauges;
  };

  // Of the round that is handed out.
  struct Round {
    int64_t number = 0;
    MonoTime handed{};
    bool settling = false;   // state is sent to members: no deadline
    bool new_group = false;  // its first reduction is by others than before
    bool idle = false;       // no work: a regroup follows
    int lead = -1;
    int source = -1;
    QueuedBatch batch;         // train; evaluate: spans only
    std::vector<int> members;  // that got work, and how much
    std::vector<int64_t> sizes;
    MonoTime half_ready{};  // when half of those who compute were
    bool hanging_told = false;
  };

  struct Step {
    Begin begin;
    int64_t first_updates = 0;  // applied before the step
    Phase phase = Phase::train;
    bool trained = false;  // own_training
    std::optional<EpochQueue> queue;
    std::vector<Span> evaluation;  // batches not done yet
    int evaluation_lead = -1;      // who has the answers of the others
    Totals evaluated;
  };

  // master.cc
  Member& at(int m) { return members_.at(static_cast<size_t>(m)); }
  const Member& at(int m) const { return members_.at(static_cast<size_t>(m)); }
  static bool present(const Member& m) {
    return m.state != State::absent && m.state != State::gone;
  }
  static bool in_round(const Member& m) {
    return m.state == State::working || m.state == State::ready;
  }
  std::vector<int> in_state(State state) const;
  int count_present() const;
  bool automatic() const;
  bool own_training() const;       // just now
  bool past_own_training() const;  // in the rest of its step
  bool result_is_lost() const;
  bool computes(int member) const;
  bool needs_all() const;
  void send(int member, Order order);
  void event(GangEvent::Kind kind, int member, const std::string& text);
  void step_abandoned(MonoTime now);
  void close_if_hopeless(int lost, const std::string& why, MonoTime now);
  void advance(MonoTime now);

  // master_rounds.cc
  void observe(int member, const Ready& ready, Duration taken);
  void observe(int member, const RoundTimes& times);
  void suspect(int member, Duration taken);
  bool any_computes(const std::vector<int>& members) const;
  bool round_complete(MonoTime now) const;
  bool half_are_ready() const;
  bool overdue(MonoTime now) const;
  void finish_round(MonoTime now);
  void go_on(Go go, int evicted, MonoTime now);
  bool lags(int member) const;
  void drop_late(MonoTime now);
  bool wants_regroup() const;
  int choose_source(const std::vector<int>& candidates) const;
  int judge(const std::vector<int>& participants, MonoTime now);

  // master_work.cc
  Totals accept_round(const std::vector<int>& participants, MonoTime now);
  void accept_evaluation(const std::vector<Span>& done, int lead);
  void restart_evaluation();
  void remember_accepted(int64_t samples, MonoTime now);
  void finish_commit(Go go);
  void enter_phase();
  void hand_out(const std::vector<int>& to, int lead, bool idle, MonoTime now);
  void plan_round(Work& work);

  // master_groups.cc
  void gather(MonoTime now);
  bool gathered(MonoTime now) const;
  bool accounted(MonoTime now);
  void regroup(MonoTime now);
  void announce(const std::vector<int>& members, MonoTime now);
  void hand_out_own(const std::vector<int>& members, MonoTime now);
  void start_step(int leader);
  bool goes_on_from(const Member& newest, const std::vector<int>& members);
  bool roll_back(int64_t updates, const std::vector<int>& members);
  int newest(const std::vector<int>& members) const;
  bool may_come_in(const Member& m) const;
  std::vector<int> responsive() const;
  void quarantine_one(std::vector<int>& members);
  Duration patience() const;

  // master_status.cc
  std::string describe(int member, MonoTime now) const;
  void tell_shares(const std::vector<int>& members,
                   const std::vector<int64_t>& sizes);
  void tell_hanging(MonoTime now);
  void check_silence(MonoTime now);

  GangOptions options_;
  std::vector<Member> members_;
  Stage stage_ = Stage::gathering;
  std::string why_closed_;
  Balancer balancer_;
  Pace pace_;
  double ready_share_ = 1;  // of a round's compute time, before `ready`

  std::vector<int> group_;       // of the incarnation: the whole data plane
  bool whole_ = false;           // of its members, all have their groups still
  std::string eviction_;         // why the last was evicted
  std::vector<int> reduced_by_;  // participants of the last go
  int incarnation_ = 0;
  int64_t updates_ = 0;
  Step step_;
  Round round_;
  int committed_ = 0;              // the last step
  int64_t committed_updates_ = 0;  // with it, and all before
  Go last_go_;                     // of its commit
  int64_t own_round_ = 0;          // the last of its own training
  int failures_on_end_ = 0;
  MonoTime broken_since_{};
  bool broken_ = false;
  MonoTime gathering_since_{};

  MonoTime ticked_{};
  std::vector<double> shares_;       // of the batch, by member
  std::vector<double> shares_told_;  // likewise, by the last event
  struct Accepted {
    MonoTime when;
    int64_t samples;
  };
  std::vector<Accepted> accepted_;  // recently

  std::vector<Outgoing> orders_;
  std::vector<GangEvent> events_;
  std::vector<GangMark> marks_;
};

}  // namespace dtune::gang
