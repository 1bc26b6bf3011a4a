// Groups: who begins, who is taken in, what survives a failure.
#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "dtune/gang/master.h"
#include "dtune/gang/members.h"

namespace dtune::gang {
namespace {

// Regroups on end without progress before somebody is left out for a while: two
// members that reach the server, but not each other, would go on for ever.
constexpr int kMostFailures = 3;
constexpr int64_t kQuarantine = 32;  // rounds

constexpr Duration kBeginPatience = std::chrono::seconds(10);

}  // namespace

void GangMaster::gather(MonoTime now) {
  if (in_state(State::waiting).empty()) return;
  if (gathering_since_ == MonoTime{}) gathering_since_ = now;
  if (gathered(now)) regroup(now);
}

bool GangMaster::gathered(MonoTime now) const {
  const std::vector<int> waiting = in_state(State::waiting);
  const bool first = incarnation_ == 0;
  std::vector<int> missing;
  for (int i = 0; i < members(); ++i) {
    const Member& m = at(i);
    if (m.state == State::waiting || m.state == State::gone) continue;
    const bool needed = needs_all() || !computes(i);
    if (needed || (m.awaited && (first || m.state != State::absent))) {
      missing.push_back(i);
    }
  }
  if (missing.empty()) return true;
  const bool own = at(waiting.front()).begin.own_training;
  if (first || own || !automatic()) return false;
  if (2 * static_cast<int>(waiting.size()) < count_present()) return false;
  if (now - gathering_since_ > kBeginPatience) return true;
  return std::all_of(missing.begin(), missing.end(),
                     [&](int m) { return now - at(m).heard > kSilent; });
}

// Whether everybody in the round has failed, shown that it has not, or is not
// to be expected soon: only then is it known who has applied what.
bool GangMaster::accounted(MonoTime now) {
  bool all = true;
  for (const int w : in_state(State::working)) {
    const bool hangs = now - broken_since_ > kHanging;
    if (now - at(w).heard <= kSilent && !hangs) {
      all = false;
      continue;
    }
    at(w).state = State::late;
    ++at(w).late;
  }
  return all;
}

// Whoever was not here when a step of its own training ended lacks what was
// trained; it comes in at the next.
bool GangMaster::may_come_in(const Member& m) const {
  if (m.state != State::waiting || m.quarantine > round_.number) return false;
  if (stage_ == Stage::gathering) return true;
  return m.begin.step <= step_.begin.step && !past_own_training();
}

// Members that will act on an order at once.
std::vector<int> GangMaster::responsive() const {
  std::vector<int> found;
  for (int i = 0; i < members(); ++i) {
    const Member& m = at(i);
    const bool trains = own_training() && m.state == State::working;
    if (may_come_in(m) || trains || m.state == State::ready ||
        m.state == State::behind || m.state == State::failed) {
      found.push_back(i);
    }
  }
  return found;
}

// Of those whose history is the gang's; -1: none.
int GangMaster::newest(const std::vector<int>& members) const {
  int best = -1;
  const auto rank = [&](int m) {
    const int step = stage_ == Stage::gathering ? at(m).begin.step : 0;
    return std::tuple(step, at(m).updates);
  };
  for (const int m : members) {
    if (at(m).forked) continue;
    if (best < 0 || rank(m) > rank(best)) best = m;
  }
  return best;
}

void GangMaster::quarantine_one(std::vector<int>& members) {
  // Nobody can do without a server.
  std::vector<int> computing = members;
  std::erase_if(computing, [this](int m) { return !computes(m); });
  if (failures_on_end_ < kMostFailures || computing.size() < 2) return;
  const int unlucky =
      computing[static_cast<size_t>(failures_on_end_) % computing.size()];
  Member& m = at(unlucky);
  m.state = State::waiting;
  m.begin.step = step_.begin.step;
  m.quarantine = round_.number + kQuarantine;
  std::erase(members, unlucky);
}

void GangMaster::regroup(MonoTime now) {
  std::vector<int> members = responsive();
  const std::vector<int> failed = in_state(State::failed);
  if (!any_computes(members)) return;
  if (!failed.empty() && needs_all()) {
    return close(fmt::format("the pipeline broke: {}: {}",
                             describe(failed.front(), now),
                             at(failed.front()).failure));
  }
  quarantine_one(members);
  const int leader = newest(members);
  if (leader < 0 || !goes_on_from(at(leader), members)) {
    return close(
        fmt::format("whoever held the newest state is gone; {} holds "
                    "an older one than the step began with",
                    describe(members.front(), now)));
  }
  const bool same = stage_ == Stage::gathering && whole_ && members == group_;
  if (stage_ == Stage::gathering) start_step(leader);
  if (!failed.empty()) ++failures_on_end_;
  if (!same) ++incarnation_;
  whole_ = !needs_all();  // pipelines are cut anew in each step
  group_ = members;
  reduced_by_ = members;  // that group is there
  broken_ = false;
  announce(members, now);
}

void GangMaster::announce(const std::vector<int>& members, MonoTime now) {
  Regroup order;
  order.incarnation = incarnation_;
  order.step = step_.begin.step;
  order.updates = updates_;
  order.members = members;
  std::vector<int> current;
  for (const int m : members) {
    at(m).begin.step = step_.begin.step;
    if (lags(m) && !step_.begin.own_training) {
      order.targets.push_back(m);
    } else {
      current.push_back(m);
    }
  }
  if (!order.targets.empty()) order.source = choose_source(current);
  // Nobody can tell whose answers have been gathered.
  restart_evaluation();
  if (step_.phase == Phase::commit) step_.phase = Phase::evaluate;
  enter_phase();
  if (own_training()) {
    hand_out_own(members, now);
  } else {
    hand_out(members, current.front(), false, now);
  }
  round_.settling = !order.targets.empty();
  round_.new_group = true;
  round_.source = order.source;
  for (const int m : members) {
    at(m).lagging = contains(order.targets, m);
    at(m).unpaced = true;
    order.work = at(m).work;
    send(m, order);
  }
  marks_.push_back(
      {fmt::format("step {}, group {}", order.step, incarnation_), {}});
}

// Repeats a round of its own training: who was ready stays so.
void GangMaster::hand_out_own(const std::vector<int>& members, MonoTime now) {
  std::vector<int> ready;
  for (const int m : members) {
    if (at(m).state == State::ready) ready.push_back(m);
  }
  const bool again = own_round_ == round_.number && round_.number > 0;
  if (again) --round_.number;
  hand_out(members, members.front(), false, now);
  own_round_ = round_.number;
  if (!again) return;
  for (const int m : ready) at(m).state = State::ready;
}

void GangMaster::start_step(int leader) {
  stage_ = Stage::running;
  step_ = Step();
  step_.begin = at(leader).begin;
  const Begin& begin = step_.begin;
  updates_ = step_.first_updates = at(leader).updates;
  committed_updates_ = std::max(committed_updates_, updates_);
  if (!begin.own_training) {
    step_.queue.emplace(BatchCutter(begin.epoch_samples, begin.batch_size),
                        begin.batch_size, begin.position, begin.end);
  }
  restart_evaluation();
}

// A gang never goes back behind what was committed.
bool GangMaster::goes_on_from(const Member& newest,
                              const std::vector<int>& members) {
  if (stage_ == Stage::running) return roll_back(newest.updates, members);
  return newest.begin.own_training || newest.updates >= committed_updates_;
}

// The gang goes on from `updates`, the most that any of `members` has applied.
// False where that is before the step.
bool GangMaster::roll_back(int64_t updates, const std::vector<int>& members) {
  if (updates >= updates_ || step_.begin.own_training) {
    step_.first_updates += std::max<int64_t>(0, updates - updates_);
    updates_ = std::max(updates_, updates);
    return true;
  }
  if (updates < step_.first_updates || !step_.queue) return false;
  step_.queue->keep(updates - step_.first_updates);
  updates_ = updates;
  if (!step_.queue->done()) step_.phase = Phase::train;
  // Whoever is not here may have applied what is void now.
  for (int m = 0; m < this->members(); ++m) {
    if (!contains(members, m)) at(m).forked = true;
  }
  return true;
}

// Of the data plane: long against a round, so that a spike breaks nothing.
Duration GangMaster::patience() const {
  constexpr Duration kLeast = std::chrono::seconds(5);
  constexpr Duration kMost = std::chrono::seconds(60);
  if (!automatic()) return kMost;
  return std::clamp(20 * pace_.quantile(0.95), kLeast, kMost);
}

}  // namespace dtune::gang
