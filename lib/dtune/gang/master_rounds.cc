// Rounds: who is ready, who is late, what is next.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "dtune/gang/master.h"
#include "dtune/gang/members.h"

namespace dtune::gang {
void GangMaster::ready(int member, const Ready& ready, MonoTime now) {
  Member& m = at(member);
  const bool owes = m.state == State::working || m.state == State::late;
  if (stage_ != Stage::running || !owes) return;
  if (ready.round != m.work.round) return;
  const Duration taken = now - m.handed;
  observe(member, ready, taken);
  m.updates = ready.updates;
  m.totals = ready.totals;
  m.metrics = ready.metrics;
  m.ready_at = now;
  const bool in_step = step_.begin.own_training || m.updates == updates_;
  if (m.state == State::late || !in_step) {
    // While it computes, who would give it state would wait for it, and the
    // others for that one.
    m.state = ready.complete ? State::behind : State::late;
  } else {
    m.state = State::ready;
    if (m.lagging || m.returning) {
      event(GangEvent::Kind::rejoined, member,
            fmt::format("{} has caught up", describe(member, now)));
    }
    m.lagging = m.returning = m.forked = false;
  }
  advance(now);
}

// Once a round, though it may be ready twice.
void GangMaster::observe(int member, const Ready& ready, Duration taken) {
  Member& m = at(member);
  if (m.told == ready.round) return;
  m.told = ready.round;
  if (m.work.phase == Phase::train && !step_.begin.own_training && !m.unpaced &&
      samples_of(m.work.spans) > 0) {
    pace_.add(taken);
  }
  observe(member, ready.times);
  if (m.state == State::late) suspect(member, taken);
}

void GangMaster::observe(int member, const RoundTimes& times) {
  Member& m = at(member);
  const double compute = times.compute();
  const double all =
      compute + times.exposed + times.waiting + times.update + times.other;
  if (!std::isfinite(all)) return;
  RoundTimes& sum = m.times;
  sum.samples += times.samples;
  sum.data += times.data;
  sum.forward += times.forward;
  sum.backward += times.backward;
  sum.exposed += times.exposed;
  sum.waiting += times.waiting;
  sum.update += times.update;
  sum.other += times.other;
  if (m.phase_before != Phase::train || times.samples <= 0) return;
  if (!(compute > 0)) return;
  balancer_.observe(member, static_cast<double>(times.samples) / compute);
  constexpr double kNewest = 0.1;  // of a moving average
  m.wait_share += kNewest * (times.waiting / all - m.wait_share);
  const double overhead = times.exposed + times.update;
  m.overhead = m.overhead < 0 ? overhead
                              : m.overhead + kNewest * (overhead - m.overhead);
  if (times.until_ready > 0) {
    const double share = std::min(1.0, times.until_ready / compute);
    ready_share_ += kNewest * (share - ready_share_);
  }
}

// What it needed for the work that went on without it is the best that is
// known of its speed until its own figures come.
void GangMaster::suspect(int member, Duration taken) {
  const Member& m = at(member);
  const auto samples = static_cast<double>(samples_of(m.work.spans));
  if (m.work.phase == Phase::train && taken > Duration{0}) {
    balancer_.suspect(member, samples / to_seconds(taken) * ready_share_);
  }
}

bool GangMaster::any_computes(const std::vector<int>& members) const {
  return std::any_of(members.begin(), members.end(),
                     [this](int m) { return computes(m); });
}

bool GangMaster::round_complete(MonoTime now) const {
  const auto working = in_state(State::working);
  if (!working.empty()) return overdue(now);
  return any_computes(responsive());
}

// Of those who have something to do: servers are ready at once.
bool GangMaster::half_are_ready() const {
  int there = 0;
  int ready = 0;
  for (int m = 0; m < members(); ++m) {
    if (!present(at(m)) || !computes(m)) continue;
    ++there;
    ready += at(m).state == State::ready ? 1 : 0;
  }
  return ready > 0 && 2 * ready >= there;
}

bool GangMaster::overdue(MonoTime now) const {
  if (!automatic() || own_training() || needs_all()) return false;
  if (!half_are_ready()) return false;
  // Those who give or get state compute only then.
  MonoTime base = round_.handed;
  if (round_.source >= 0 && present(at(round_.source))) {
    if (at(round_.source).state != State::ready) return false;
    base = at(round_.source).ready_at;
  }
  const Duration half = round_.half_ready - base;
  if (round_.settling) return now - round_.half_ready > 2 * patience();
  if (step_.phase != Phase::train || round_.idle) {
    if (step_.phase == Phase::commit &&
        !contains(in_state(State::ready), round_.lead)) {
      return false;
    }
    return now - base > 3 * half + kSilent;
  }
  const double expected =
      ready_share_ * balancer_.expected_seconds(round_.members, round_.sizes);
  const auto deadline = pace_.deadline(from_seconds(expected));
  // Where all are held up together, nobody is late: what the first half needed
  // beyond the usual is given to the others as well.
  if (round_.new_group)
    base += std::max(Duration{0}, half - pace_.quantile(0.5));
  return deadline && now - base > *deadline &&
         now - round_.half_ready > Pace::kFloor;
}

void GangMaster::finish_round(MonoTime now) {
  const std::vector<int> participants = in_state(State::ready);
  drop_late(now);
  int64_t samples = 0;
  for (const int p : participants) samples += samples_of(at(p).work.spans);
  // Nothing came of it: hand out anew.
  const bool train = step_.phase == Phase::train && !step_.begin.own_training;
  const bool no_lead =
      step_.phase == Phase::commit && !contains(participants, round_.lead);
  if (round_.idle || !any_computes(participants) || no_lead ||
      (train && samples == 0)) {
    return regroup(now);
  }
  Go go;
  go.round = round_.number;
  go.participants = participants;
  go.patience = patience();
  go.totals = accept_round(participants, now);
  failures_on_end_ = 0;
  if (step_.phase == Phase::commit) return finish_commit(go);
  const bool more = train && !step_.queue->done();
  const int evicted = more ? judge(participants, now) : -1;
  enter_phase();
  go_on(std::move(go), evicted, now);
}

// Tells the participants to reduce, and hands out the next round.
void GangMaster::go_on(Go go, int evicted, MonoTime now) {
  std::vector<int> next = go.participants;
  std::erase(next, evicted);
  const bool commit = step_.phase == Phase::commit;
  const bool idle = !commit && wants_regroup();
  const std::vector<int> back =
      commit || idle ? std::vector<int>{} : in_state(State::behind);
  for (const int b : back) {
    if (lags(b)) go.targets.push_back(b);
  }
  if (!go.targets.empty()) go.source = choose_source(next);
  next.insert(next.end(), back.begin(), back.end());
  std::sort(next.begin(), next.end());
  hand_out(next, go.participants.front(), idle, now);
  // Making a group of other participants takes time that is not theirs.
  round_.new_group = go.participants != reduced_by_;
  reduced_by_ = go.participants;
  for (const int p : next) at(p).unpaced = round_.new_group;
  round_.source = go.source;
  if (go.source >= 0) at(go.source).unpaced = true;
  for (const int p : go.participants) {
    Go order = go;
    order.next.round = round_.number;
    if (p != evicted) order.next = at(p).work;
    send(p, std::move(order));
  }
  for (const int b : back) {
    const bool target = contains(go.targets, b);
    at(b).lagging = target;
    at(b).returning = true;
    at(b).unpaced = true;
    send(b, CatchUp{go.round, updates_, target ? go.source : -1, go.patience,
                    at(b).work});
    marks_.push_back({fmt::format("rank {} catches up", b), {}});
  }
  if (evicted >= 0) send(evicted, Evicted{eviction_});
}

bool GangMaster::lags(int member) const {
  const Member& m = at(member);
  return m.forked || m.updates != updates_;
}

void GangMaster::drop_late(MonoTime now) {
  for (const int w : in_state(State::working)) {
    Member& m = at(w);
    m.state = State::late;
    m.lagging = false;
    ++m.late;
    whole_ = false;
    event(GangEvent::Kind::late, w,
          fmt::format("round {} went on without {}", round_.number,
                      describe(w, now)));
    marks_.push_back({fmt::format("go without rank {}", w), {}});
  }
}

// Another round of this step would need groups that there are not.
bool GangMaster::wants_regroup() const {
  const bool whole = std::all_of(group_.begin(), group_.end(), [&](int m) {
    return present(at(m)) && at(m).state != State::joined;
  });
  if (own_training() && !whole) return true;  // it must be known who is here
  for (int i = 0; i < members(); ++i) {
    const Member& m = at(i);
    if (m.state == State::behind && (!whole || !contains(group_, i))) {
      return true;
    }
    if (may_come_in(m)) return true;
  }
  return false;
}

// The fastest: it is the one that the others are least likely to wait for.
int GangMaster::choose_source(const std::vector<int>& candidates) const {
  return *std::max_element(
      candidates.begin(), candidates.end(), [this](int a, int b) {
        return balancer_.predicted(a) < balancer_.predicted(b);
      });
}

int GangMaster::judge(const std::vector<int>& participants, MonoTime now) {
  const ParallelSpec& parallel = options_.parallel;
  if (!automatic() || parallel.mode != ParallelMode::data) return -1;
  if (round_.settling) return -1;
  // Who is last to come to the reduction waits for nobody in it.
  double overhead = std::numeric_limits<double>::infinity();
  for (const int p : participants) {
    if (at(p).overhead >= 0) overhead = std::min(overhead, at(p).overhead);
  }
  if (!std::isfinite(overhead)) return -1;
  const auto evicted =
      balancer_.judge(round_.batch.size, participants, overhead);
  if (!evicted) return -1;
  eviction_ = fmt::format(
      "{} costs more than it brings: {:.0f} samples/s, and each "
      "round spends {:.3f} s on keeping together",
      describe(*evicted, now), balancer_.predicted(*evicted), overhead);
  event(GangEvent::Kind::evicted, *evicted, eviction_);
  marks_.push_back({fmt::format("rank {} evicted", *evicted), {}});
  at(*evicted).state = State::gone;
  return *evicted;
}

}  // namespace dtune::gang
