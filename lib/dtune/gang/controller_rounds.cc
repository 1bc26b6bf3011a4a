// Rounds: which members are ready, which are late, what of it counts, what is
// next.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "dtune/gang/controller.h"
#include "dtune/gang/members.h"

namespace dtune::gang {

using State = MemberState;

namespace {

// Their sum over members and rounds fits in a message: none of a training that
// exists comes near these limits.
bool can_be_summed(const LossTotals& totals) {
  constexpr int64_t kMostSamples = int64_t{1} << 40;
  constexpr double kMostWeight = 1e15;
  return totals.samples <= kMostSamples && totals.correct <= kMostSamples &&
         std::abs(totals.weight) <= kMostWeight;
}

}  // namespace

void GangController::ready(int member, const Ready& ready, MonoTime now) {
  const State state = members_.at(member).state;
  const bool owes = state == State::working || state == State::late;
  if (!running() || !owes) return;
  if (ready.round != round_.part(member).work.round) return;
  if (!can_be_summed(ready.totals)) return;
  if (!ready.complete && !timing_.commits_early(now)) return;
  if (round_.note_ready(member, ready, now)) time_round(member, ready, now);
  const bool current =
      !step_->trains_by_batches() || ready.updates == step_->updates();
  if (members_.ready(member, ready, current)) {
    decisions_.event(
        GangEvent::Kind::rejoined, member,
        fmt::format("{} has caught up", members_.describe(member, now)));
  }
  advance(now);
}

// Once a round, though it may be ready twice.
void GangController::time_round(int member, const Ready& ready, MonoTime now) {
  const Round::Part& part = round_.part(member);
  const bool train = part.work.phase == Phase::train;
  const int64_t samples = samples_of(part.work.spans);
  const Duration taken = now - part.handed - part.stood_still;
  if (train && step_->trains_by_batches() && !part.unpaced && samples > 0) {
    timing_.add_pace(taken);
  }
  timing_.observe(member, ready.times, part.showed_speed);
  if (train && members_.is(member, State::late)) {
    timing_.suspect(member, samples, taken);
  }
}

bool GangController::round_complete(MonoTime now) const {
  if (!members_.in_state(State::working).empty()) return overdue(now);
  return members_.any_computes(responsive());
}

// Of those that have something to do in this round: servers are ready at once,
// and a member that is late already has no part in it.
bool GangController::half_are_ready() const {
  int there = 0;
  int ready = 0;
  for (int m = 0; m < members(); ++m) {
    if (!members_.at(m).in_round() || !members_.computes(m)) continue;
    ++there;
    ready += members_.is(m, State::ready) ? 1 : 0;
  }
  return ready > 0 && 2 * ready >= there;
}

// Without heartbeats for so long a member is not slow: this needs no majority
// and no known pace. No round goes on without a parameter server.
bool GangController::only_stopped_are_awaited(MonoTime now) const {
  if (!members_.any_computes(members_.in_state(State::ready))) return false;
  const std::vector<int> awaited = members_.in_state(State::working);
  return std::all_of(awaited.begin(), awaited.end(), [&](int m) {
    return members_.computes(m) && stopped(m, now);
  });
}

bool GangController::overdue(MonoTime now) const {
  if (!automatic() || members_.needs_all()) return false;
  if (only_stopped_are_awaited(now)) return true;
  if (open_round() || !half_are_ready()) return false;
  // Those that give or get state compute only then.
  const int source = round_.source();
  MonoTime base = round_.handed();
  if (source >= 0 && members_.at(source).present()) {
    if (!members_.is(source, State::ready)) return false;
    base = round_.part(source).ready_at;
  }
  const Duration since_half = now - round_.half_ready();
  const Duration half = round_.half_ready() - base;
  if (round_.settling()) return since_half > 2 * timing_.patience();
  const Phase phase = step_->phase();
  if (phase == Phase::commit && !members_.is(round_.leader(), State::ready)) {
    return false;
  }
  if (phase != Phase::train || round_.idle()) {
    return now - base > 3 * half + kSilent;
  }
  // Where all are held up together, none is late: what the first half needed
  // beyond the usual is given to the others as well.
  const Duration held_up =
      round_.new_group() ? std::max(Duration{0}, half - timing_.round_time(0.5))
                         : Duration{0};
  const auto deadline = timing_.deadline(round_);
  const auto is_late = [&](int m) {
    if (stands_still(m, now)) return costs_too_much(m, now);
    const Duration taken = now - base - round_.part(m).stood_still;
    return deadline && taken - held_up > *deadline && since_half > Pace::kFloor;
  };
  const std::vector<int> awaited = members_.in_state(State::working);
  return std::all_of(awaited.begin(), awaited.end(), is_late);
}

bool GangController::costs_too_much(int member, MonoTime now) const {
  const MonoTime heard = members_.at(member).heard;
  const Duration until = heard - round_.handed();
  return timing_.worth_going_on(
      {.waiting = members_.in_state(State::ready).size(),
       .usual = round_.half_ready() - round_.handed(),
       .worked = std::max(Duration{0}, until - round_.part(member).stood_still),
       .silent = now - heard});
}

void GangController::finish_round(MonoTime now) {
  const std::vector<int> participants = members_.in_state(State::ready);
  drop_late(now);
  // Nothing came of it: hand out anew.
  const bool train =
      step_->phase() == Phase::train && step_->trains_by_batches();
  const bool nothing = train && samples_of(round_.spans_of(participants)) == 0;
  const bool no_leader = step_->phase() == Phase::commit &&
                         !contains(participants, round_.leader());
  if (round_.idle() || !members_.any_computes(participants) || no_leader ||
      nothing) {
    return regroup(now);
  }
  Go go;
  go.round = round_.number();
  go.participants = participants;
  go.patience = timing_.patience();
  go.totals = accept_round(participants, now);
  failures_on_end_ = 0;
  if (step_->phase() == Phase::commit) return finish_commit(go);
  step_->enter_phase();
  const bool more = train && step_->phase() == Phase::train;
  go_on(std::move(go), more ? judge(participants, now) : -1, now);
}

LossTotals GangController::accept_round(const std::vector<int>& participants,
                                        MonoTime now) {
  std::vector<Span> done = round_.spans_of(participants);
  const LossTotals totals = round_.totals_of(participants);
  for (const int p : participants) {
    step_->note_updates(members_.at(p).updates);
  }
  if (step_->phase() == Phase::evaluate) {
    return step_->accept_evaluation(std::move(done), totals,
                                    participants.front());
  }
  if (step_->phase() == Phase::train) {
    step_->accept_training(done);
    if (step_->trains_by_batches()) timing_.end_round(samples_of(done), now);
  }
  return totals;
}

void GangController::finish_commit(Go go) {
  go.last = true;
  go.metrics = round_.part(round_.leader()).metrics;
  committed_ = step_->number();
  committed_updates_ = step_->updates();
  last_go_ = go;
  for (int i = 0; i < members(); ++i) {
    const Member& m = members_.at(i);
    if (!m.present() || m.outside_step(committed_)) continue;
    members_.finish_step(i);
    decisions_.send(i, go);
  }
  stage_ = Stage::gathering;
  gathering_since_ = MonoTime{};
}

// Lets the participants reduce, and hands out the next round.
void GangController::go_on(Go go, int evicted, MonoTime now) {
  std::vector<int> next = go.participants;
  std::erase(next, evicted);
  const bool commit = step_->phase() == Phase::commit;
  const bool idle = !commit && wants_regroup();
  std::vector<int> back =
      commit || idle ? std::vector<int>{} : members_.in_state(State::behind);
  std::erase_if(back, [this](int b) { return comes_next_step(b); });
  std::copy_if(back.begin(), back.end(), std::back_inserter(go.targets),
               [this](int b) { return lags(b); });
  if (!go.targets.empty()) go.source = timing_.fastest(next);
  next.insert(next.end(), back.begin(), back.end());
  std::sort(next.begin(), next.end());
  hand_out(next, go.participants.front(), idle, now);
  round_.reduce(go.participants, go.source);
  for (const int p : go.participants) {
    Go order = go;
    order.next.round = round_.number();
    if (p != evicted) order.next = round_.part(p).work;
    decisions_.send(p, std::move(order));
  }
  for (const int b : back) take_back(b, go);
  if (evicted >= 0) decisions_.send(evicted, Evicted{eviction_});
}

void GangController::take_back(int member, const Go& go) {
  const bool target = contains(go.targets, member);
  members_.take_back(member, target);
  round_.unpace(member);
  decisions_.send(member,
                  CatchUp{go.round, step_->updates(), target ? go.source : -1,
                          go.patience, round_.part(member).work});
  decisions_.mark(fmt::format("rank {} catches up", member));
}

void GangController::drop_late(MonoTime now) {
  for (const int w : members_.in_state(State::working)) {
    members_.go_without(w);
    if (open_round()) members_.note_untrained(w);
    if (stands_still(w, now)) make_void(w);
    decisions_.event(GangEvent::Kind::late, w,
                     fmt::format("round {} went on without {}", round_.number(),
                                 members_.describe(w, now)));
    decisions_.mark(fmt::format("go without rank {}", w));
  }
}

// Its work is done by others before it goes on: it need not finish it. A rank
// that is slow does, since its time is the best that is known of its speed.
void GangController::make_void(int member) {
  if (step_->phase() != Phase::train || !step_->trains_by_batches()) return;
  round_.make_void(member);
  decisions_.send(member, CatchUp{round_.number(), step_->updates(), -1,
                                  Duration{0}, round_.part(member).work});
}

// One that has stopped after it was ready breaks what the others do together
// (the reduction, the end of the training, state that is sent). It is not known
// here which of them wait for it, so the order goes to all that may; again, should
// one have begun to wait just then. Not to one that stands still itself: orders
// would gather for it, and give up ranks that are back when it reads them.
void GangController::give_up_silent(MonoTime now) {
  constexpr Duration kAgain = std::chrono::milliseconds(250);
  if (!automatic() || members_.needs_all() || open_round()) return;
  const std::vector<int>& peers = round_.reduced_by();
  const std::vector<int> working = members_.in_state(State::working);
  for (const int silent : working) {
    if (!contains(peers, silent) || peers.size() < 2) continue;
    const Duration since = now - members_.at(silent).heard;
    const bool gives_up =
        timing_.knows_pace()
            ? stands_still(silent, now) &&
                  timing_.worth_giving_up(peers.size() - 1, since)
            : stopped(silent, now);
    if (!gives_up) continue;
    const MonoTime last = round_.part(silent).given_up;
    if (last != MonoTime{} && now - last < kAgain) continue;
    round_.note_given_up(silent, now);
    for (const int m : working) {
      if (!contains(peers, m) || stands_still(m, now)) continue;
      decisions_.send(m, GiveUp{members_.incarnation(), silent});
    }
  }
}

// The member that is not worth its company any more; -1: none.
int GangController::judge(const std::vector<int>& participants, MonoTime now) {
  if (!automatic() || options_.parallel.mode != ParallelMode::data) return -1;
  if (round_.settling()) return -1;
  const auto verdict = timing_.judge(round_.batch_size(), participants);
  if (!verdict) return -1;
  const int member = verdict->member;
  eviction_ = members_.describe(member, now) + " " + verdict->costs;
  decisions_.event(GangEvent::Kind::evicted, member, eviction_);
  decisions_.mark(fmt::format("rank {} evicted", member));
  members_.evict(member);
  return member;
}

// In an open round a member that was ready stays so.
void GangController::hand_out(const std::vector<int>& to, int leader, bool idle,
                              MonoTime now) {
  RoundPlan plan;
  plan.members = to;
  plan.leader = leader;
  plan.idle = idle;
  plan.open = open_round();
  plan.work.phase = step_->phase();
  if (!idle) share_out(plan);
  plan.shows_speeds = shows_speeds(plan);
  const bool again = plan.open && round_.open();
  round_.hand_out(std::move(plan), now);
  for (const int m : to) {
    if (!again || !members_.is(m, State::ready)) members_.work(m);
  }
}

// Not a small batch, which is fixed costs above all; and not while a rank stands
// still: the others have its cores, where they share them.
bool GangController::shows_speeds(const RoundPlan& plan) const {
  if (plan.idle || plan.work.phase != Phase::train) return false;
  if (!step_->trains_by_batches()) return true;
  const std::vector<int> late = members_.in_state(State::late);
  const bool all_run = std::none_of(late.begin(), late.end(), [this](int m) {
    return round_.part(m).work.spans.empty();
  });
  const Begin& step = step_->begin();
  const int64_t usual = std::min(step.batch_size, step.epoch_samples);
  return all_run && 2 * plan.batch.size >= usual;
}

// What all members' work has in common, and how much of it each gets.
void GangController::share_out(RoundPlan& plan) {
  std::vector<int> computing = plan.members;
  std::erase_if(computing, [this](int m) { return !members_.computes(m); });
  switch (step_->phase()) {
    case Phase::train:
      plan.batch = step_->plan_training(plan.work);
      if (plan.open) return;
      plan.sizes = timing_.split(plan.batch.size, computing, decisions_);
      return;
    case Phase::evaluate:
      plan.batch.spans = step_->evaluation();
      plan.batch.size = samples_of(plan.batch.spans);
      plan.sizes = timing_.split_once(plan.batch.size, computing);
      break;
    case Phase::commit:  // the leader's work alone
      plan.batch.spans = {{0, 1}};
      plan.batch.size = 1;
      for (const int m : plan.members) {
        plan.sizes.push_back(m == plan.leader ? 1 : 0);
      }
      break;
  }
  plan.work.batch_samples = plan.batch.size;
}

}  // namespace dtune::gang
