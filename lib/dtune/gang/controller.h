// Decides for one gang: which members are present, what each does, when a round
// goes on without a member, and what happens after a failure. A pure machine:
// messages and the time go in, orders and events come out; no threads, no
// sockets.
//
// The parts own their state: members (membership.h), the round that is handed
// out (round.h), the step's work (step.h), how long rounds take (timing.h).
// What is here decides by them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/gang/decisions.h"
#include "dtune/gang/membership.h"
#include "dtune/gang/messages.h"
#include "dtune/gang/round.h"
#include "dtune/gang/server.h"
#include "dtune/gang/step.h"
#include "dtune/gang/timing.h"

namespace dtune::gang {

// Rounds. Round r is handed out (working), reported ready, and ends with `go`,
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
// failure as soon as all are accounted for; otherwise at the end of the
// round, by way of a round without work, which makes sure that its update has
// been applied everywhere.
//
// The times that go in are those of one clock, on which pauses of the caller
// do not count (base/turn_clock.h).
class GangController {
 public:
  using Outgoing = Decisions::Outgoing;

  GangController(GangOptions options, MonoTime now);

  // Messages of a member. REQUIRES: 0 <= member < members(). What does not fit
  // is ignored: it is late or a repetition.
  void joined(int member, MonoTime now);
  void heard(int member, MonoTime now);
  void phase(int member, const std::string& text, Duration age, MonoTime now) {
    members_.note_phase(member, text, now - age);
  }
  void gauge(int member, const std::string& name, double value) {
    members_.gauge(member, name, value);
  }
  void begin(int member, const Begin& begin, MonoTime now);
  void ready(int member, const Ready& ready, MonoTime now);
  void failed(int member, const Failed& failed, MonoTime now);
  void left_step(int member, MonoTime now);
  // `why`: should it have been in the middle of a step.
  void left(int member, const std::string& why, MonoTime now);
  void lost(int member, const std::string& why, MonoTime now);
  // At least every kTick.
  void tick(MonoTime now);
  // `member`: the one that is missing, where it is one.
  void close(const std::string& why, int member = -1);

  std::vector<Outgoing> take_orders() { return decisions_.take_orders(); }
  std::vector<GangEvent> take_events() { return decisions_.take_events(); }
  std::vector<GangMark> take_marks() { return decisions_.take_marks(); }

  int members() const { return members_.size(); }
  bool closed() const { return stage_ == Stage::closed; }
  bool can_lose(int member) const {
    return !closed() && members_.can_lose(member);
  }
  const GangOptions& options() const { return options_; }
  GangStatus status() const;

  static constexpr Duration kTick = std::chrono::milliseconds(20);
  // Silence that counts once others have failed.
  static constexpr Duration kSilent = std::chrono::seconds(1);
  // Silence after which a member has stopped: none waits for it, in whatever
  // phase. One that the gang cannot do without (a stage, a parameter server) is
  // lost after kReplaced, and the trial goes on from its checkpoint.
  static constexpr Duration kStopped = std::chrono::seconds(2);
  static constexpr Duration kReplaced = std::chrono::seconds(5);
  // Heartbeats without which a member stands still: a spike.
  static constexpr int kMissedHeartbeats = 3;
  static constexpr Duration kHanging = std::chrono::seconds(30);

 private:
  enum class Stage { gathering, running, closed };

  // controller.cc
  bool running() const { return stage_ == Stage::running; }
  bool automatic() const;
  bool open_round() const { return running() && step_->is_open_round(); }
  bool stopped(int member, MonoTime now) const;
  bool stands_still(int member, MonoTime now) const;
  Duration allowed_silence(int member) const;
  bool result_is_lost() const;
  void step_abandoned(MonoTime now);
  void close_if_hopeless(int lost, const std::string& why, MonoTime now);
  void check_silence(MonoTime now);
  void report_hanging(MonoTime now);
  void advance(MonoTime now);

  // controller_rounds.cc
  void time_round(int member, const Ready& ready, MonoTime now);
  bool round_complete(MonoTime now) const;
  bool half_are_ready() const;
  bool only_stopped_are_awaited(MonoTime now) const;
  bool overdue(MonoTime now) const;
  bool costs_too_much(int member, MonoTime now) const;
  void finish_round(MonoTime now);
  LossTotals accept_round(const std::vector<int>& participants, MonoTime now);
  void finish_commit(Go go);
  void go_on(Go go, int evicted, MonoTime now);
  void take_back(int member, const Go& go);
  void drop_late(MonoTime now);
  void make_void(int member);
  void give_up_silent(MonoTime now);
  int judge(const std::vector<int>& participants, MonoTime now);
  void hand_out(const std::vector<int>& to, int leader, bool idle,
                MonoTime now);
  void share_out(RoundPlan& plan);
  bool shows_speeds(const RoundPlan& plan) const;

  // controller_groups.cc
  void gather(MonoTime now);
  bool gathered(MonoTime now) const;
  bool accounted(MonoTime now);
  void regroup(MonoTime now);
  bool agree_on_state(int newest, const std::vector<int>& members);
  void announce(const std::vector<int>& members, MonoTime now);
  bool wants_regroup() const;
  bool lags(int member) const;
  bool may_come_in(const Member& m) const;
  bool comes_next_step(int member) const;
  std::vector<int> responsive() const;
  void quarantine_one(std::vector<int>& members);

  GangOptions options_;
  Decisions decisions_;
  Membership members_;
  Timing timing_;
  Round round_;
  std::unique_ptr<Step> step_;  // null before the first

  Stage stage_ = Stage::gathering;
  std::string why_closed_;
  std::string eviction_;           // why the last was evicted
  int committed_ = 0;              // the last step
  int64_t committed_updates_ = 0;  // with it, and all before
  Go last_go_;                     // of its commit
  int failures_on_end_ = 0;
  bool broken_ = false;
  MonoTime broken_since_{};
  MonoTime gathering_since_{};
};

}  // namespace dtune::gang
