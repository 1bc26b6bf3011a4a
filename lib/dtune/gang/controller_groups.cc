// Groups: which members begin, which are taken in, what survives a failure.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "dtune/gang/controller.h"
#include "dtune/gang/members.h"

namespace dtune::gang {
namespace {

// Regroups on end without progress before a member is left out for a while: two
// members that reach the server, but not each other, would go on for ever.
constexpr int kMostFailures = 3;
constexpr int64_t kQuarantine = 32;  // rounds

constexpr Duration kBeginPatience = std::chrono::seconds(10);

}  // namespace

using State = MemberState;

void GangController::gather(MonoTime now) {
  if (members_.in_state(State::waiting).empty()) return;
  if (gathering_since_ == MonoTime{}) gathering_since_ = now;
  if (gathered(now)) regroup(now);
}

bool GangController::gathered(MonoTime now) const {
  const std::vector<int> missing = members_.missing();
  if (missing.empty()) return true;
  const std::vector<int> waiting = members_.in_state(State::waiting);
  const bool first = members_.incarnation() == 0;
  const bool own = members_.at(waiting.front()).begin.own_training;
  if (first || !automatic() || members_.needs_all()) return false;
  const bool all_stopped = std::all_of(
      missing.begin(), missing.end(),
      [&](int m) { return members_.computes(m) && stopped(m, now); });
  if (all_stopped) return true;
  if (own) return false;
  if (2 * static_cast<int>(waiting.size()) < members_.count_present()) {
    return false;
  }
  if (now - gathering_since_ > kBeginPatience) return true;
  return std::all_of(missing.begin(), missing.end(), [&](int m) {
    return now - members_.at(m).heard > kSilent;
  });
}

// Whether all in the round have failed, shown that they have not, or are not
// to be expected soon: only then is it known which have applied what.
bool GangController::accounted(MonoTime now) {
  // Its operation fails when theirs does, or the round's work is long.
  const Duration longest = 2 * timing_.patience(Timing::kGroupPatience);
  bool all = true;
  for (const int w : members_.in_state(State::working)) {
    const bool hangs = now - broken_since_ > std::min(kHanging, longest);
    const bool given_up = round_.part(w).given_up != MonoTime{};
    const bool silent =
        given_up ? stands_still(w, now) : now - members_.at(w).heard > kSilent;
    if (!(silent || hangs) || !members_.computes(w)) {
      all = false;
    } else {
      members_.give_up(w);
      decisions_.event(GangEvent::Kind::late, w,
                       fmt::format("the others go on without {}",
                                   members_.describe(w, now)));
    }
  }
  return all;
}

// A member that was not here when a step that its members hold was trained
// comes in at the next.
bool GangController::may_come_in(const Member& m) const {
  if (m.state != State::waiting || m.quarantine > round_.number()) return false;
  if (!running()) return true;
  return m.begin.step <= step_->number() && !step_->is_held_by_members();
}

// It was late for the training whose result only the others have.
bool GangController::comes_next_step(int member) const {
  return running() && members_.at(member).untrained &&
         step_->is_held_by_members();
}

// Members that will act on an order at once.
std::vector<int> GangController::responsive() const {
  std::vector<int> found;
  for (int i = 0; i < members(); ++i) {
    const Member& m = members_.at(i);
    const bool trains = m.state == State::working && open_round();
    if (comes_next_step(i)) continue;
    if (may_come_in(m) || trains || m.state == State::ready ||
        m.state == State::behind || m.state == State::failed) {
      found.push_back(i);
    }
  }
  return found;
}

// Another round of this step would need groups that there are not.
bool GangController::wants_regroup() const {
  const bool whole = members_.group_present();
  if (open_round() && !whole) return true;  // it must be known which are here
  for (int i = 0; i < members(); ++i) {
    const bool apart = !whole || !contains(members_.group(), i);
    if (members_.is(i, State::behind) && apart) return true;
    if (may_come_in(members_.at(i))) return true;
  }
  return false;
}

bool GangController::lags(int member) const {
  const Member& m = members_.at(member);
  return m.forked || m.updates != step_->updates();
}

void GangController::quarantine_one(std::vector<int>& members) {
  // No member can do without a server.
  std::vector<int> computing = members;
  std::erase_if(computing, [this](int m) { return !members_.computes(m); });
  if (failures_on_end_ < kMostFailures || computing.size() < 2) return;
  const int unlucky =
      computing[static_cast<size_t>(failures_on_end_) % computing.size()];
  members_.quarantine(unlucky, step_->number(), round_.number() + kQuarantine);
  std::erase(members, unlucky);
}

void GangController::regroup(MonoTime now) {
  std::vector<int> members = responsive();
  const std::vector<int> failed = members_.in_state(State::failed);
  if (!members_.any_computes(members)) return;
  if (!failed.empty() && members_.needs_all()) {
    return close(fmt::format("the pipeline broke: {}: {}",
                             members_.describe(failed.front(), now),
                             members_.at(failed.front()).failure));
  }
  quarantine_one(members);
  const bool same = !running() && members_.group_is(members);
  const int newest = members_.newest(members, /*before_step=*/!running());
  if (newest < 0 || !agree_on_state(newest, members)) {
    return close(
        fmt::format("the members with the newest state are gone; the state of "
                    "{} is older than the start of the step",
                    members_.describe(members.front(), now)));
  }
  if (!failed.empty()) ++failures_on_end_;
  members_.regroup(members, same);
  broken_ = false;
  announce(members, now);
}

// The gang goes on from the state of `newest`: of the step, or of a new one.
// False where that would go back behind what was committed.
bool GangController::agree_on_state(int newest,
                                    const std::vector<int>& members) {
  const Member& leader = members_.at(newest);
  if (running()) {
    switch (step_->go_on_from(leader.updates)) {
      case Step::Rollback::none:
        return true;
      case Step::Rollback::done:
        // A member that is not here may have applied what is void now.
        members_.fork_all_but(members);
        return true;
      case Step::Rollback::impossible:
        break;
    }
    return false;
  }
  step_ = make_step(leader.begin, leader.updates);
  if (step_->trains_by_batches() && leader.updates < committed_updates_) {
    return false;
  }
  stage_ = Stage::running;
  committed_updates_ = std::max(committed_updates_, leader.updates);
  return true;
}

void GangController::announce(const std::vector<int>& members, MonoTime now) {
  Regroup order;
  order.incarnation = members_.incarnation();
  order.step = step_->number();
  order.updates = step_->updates();
  order.members = members;
  order.patience = timing_.patience(Timing::kGroupPatience);
  std::vector<int> current;
  for (const int m : members) {
    const bool target = step_->trains_by_batches() && lags(m);
    (target ? order.targets : current).push_back(m);
    members_.enter_step(m, order.step, target);
  }
  if (!order.targets.empty()) order.source = timing_.fastest(current);
  // It is unknown whose answers have been gathered.
  step_->restart_evaluation();
  step_->enter_phase();
  hand_out(members, current.front(), false, now);
  round_.begin_group(members, order.source, !order.targets.empty());
  for (const int m : members) {
    order.work = round_.part(m).work;
    decisions_.send(m, order);
  }
  decisions_.mark(
      fmt::format("step {}, group {}", order.step, order.incarnation));
}

}  // namespace dtune::gang
