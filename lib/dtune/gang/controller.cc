#include "dtune/gang/controller.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "dtune/gang/members.h"

namespace dtune::gang {
namespace {

using State = MemberState;

// Between two heartbeats: what the server has for each member.
constexpr Duration kMemberTime = std::chrono::milliseconds(1);

const char* name_of(Phase phase) {
  switch (phase) {
    case Phase::train:
      return "training";
    case Phase::evaluate:
      return "evaluation";
    case Phase::commit:
      break;
  }
  return "commit";
}

std::string one_decimal(Duration d) {
  return fmt::format("{:.1f} s", to_seconds(d));
}

}  // namespace

GangController::GangController(GangOptions options, MonoTime now)
    : options_(std::move(options)),
      decisions_(options_.gang),
      members_(options_.parallel, options_.nodes),
      timing_(options_.parallel, static_cast<size_t>(members())),
      round_(static_cast<size_t>(members())),
      gathering_since_(now) {
  options_.nodes.resize(static_cast<size_t>(members()));
  options_.heartbeat =
      std::max<Duration>(options_.heartbeat, members() * kMemberTime);
}

bool GangController::automatic() const {
  return options_.parallel.stragglers == StragglerPolicy::automatic;
}

// In heartbeats as well, where they are few.
bool GangController::stopped(int member, MonoTime now) const {
  const Duration allowed = std::max(kStopped, 8 * options_.heartbeat);
  return now - members_.at(member).heard > allowed;
}

bool GangController::stands_still(int member, MonoTime now) const {
  return now - members_.at(member).heard >
         kMissedHeartbeats * options_.heartbeat;
}

Duration GangController::allowed_silence(int member) const {
  const bool needed = members_.needs_all() || !members_.computes(member);
  if (!automatic() || !needed) return options_.lease;
  return std::min(options_.lease, std::max(kReplaced, 20 * options_.heartbeat));
}

// No member is left that could evaluate what was trained.
bool GangController::result_is_lost() const {
  if (!step_->is_held_by_members()) return false;
  for (int i = 0; i < members(); ++i) {
    const Member& m = members_.at(i);
    const bool in_step = m.in_round() || m.state == State::late ||
                         m.state == State::behind || m.state == State::failed;
    if (members_.computes(i) && in_step && !m.untrained) return false;
  }
  return true;
}

void GangController::joined(int member, MonoTime now) {
  members_.hear(member, now);
  if (closed()) return decisions_.send(member, Closed{why_closed_});
  if (members_.join(member, now)) timing_.forget(member);
}

void GangController::heard(int member, MonoTime now) {
  if (stands_still(member, now)) {
    const MonoTime since = members_.at(member).heard;
    timing_.add_spike(now - since, now);
    round_.note_spike(member,
                      now - std::max(since, round_.part(member).handed));
  }
  members_.hear(member, now);
}

void GangController::begin(int member, const Begin& begin, MonoTime now) {
  if (closed() || !members_.at(member).present()) return;
  members_.begin(member, begin);
  if (!running() && begin.step <= committed_) {
    members_.miss_step(member);
    return decisions_.send(member, last_go_);
  }
  step_abandoned(now);
  advance(now);
}

void GangController::failed(int member, const Failed& failed, MonoTime now) {
  const Member& m = members_.at(member);
  const bool taking_part =
      m.in_round() || m.state == State::late || m.state == State::behind;
  if (!running() || !taking_part) return;
  const bool apart = m.untrained && step_->is_held_by_members();
  if (failed.incarnation == members_.incarnation() && !apart) {
    members_.fail(member, failed);
  } else if (contains(members_.group(), member) && !apart) {
    return;  // a regroup is on its way
  } else {
    // Left out of a regroup: it can come in again.
    members_.fall_behind(member, failed.updates);
  }
  advance(now);
}

void GangController::left_step(int member, MonoTime now) {
  if (closed() || !members_.at(member).present()) return;
  members_.leave_step(member);
  step_abandoned(now);
  advance(now);
}

// A step without members is void: the next to begin decides.
void GangController::step_abandoned(MonoTime now) {
  if (!running()) return;
  for (int i = 0; i < members(); ++i) {
    const Member& m = members_.at(i);
    if (m.present() && !m.outside_step(step_->number())) return;
  }
  stage_ = Stage::gathering;
  gathering_since_ = now;
  broken_ = false;
  step_ = nullptr;
}

void GangController::left(int member, const std::string& why, MonoTime now) {
  const Member& m = members_.at(member);
  if (closed() || !m.present()) return;
  if (running() && m.state != State::joined) return lost(member, why, now);
  members_.leave(member);
  step_abandoned(now);
  advance(now);
}

void GangController::lost(int member, const std::string& why, MonoTime now) {
  const State before = members_.at(member).state;
  if (closed() || before == State::gone) return;
  std::string text =
      fmt::format("{} is lost: {}", members_.describe(member, now), why);
  members_.leave(member);
  if (before != State::absent) {  // else it will not come at all
    decisions_.event(GangEvent::Kind::lost, member, std::move(text));
    decisions_.mark(fmt::format("rank {} lost", member));
  }
  close_if_hopeless(member, why, now);
  if (before != State::absent) step_abandoned(now);
  advance(now);
}

void GangController::close_if_hopeless(int lost, const std::string& why,
                                       MonoTime now) {
  if (members_.can_lose(lost)) return;
  close(fmt::format("the gang cannot go on without {}: {}",
                    members_.describe(lost, now), why),
        lost);
}

void GangController::close(const std::string& why, int member) {
  if (closed()) return;
  stage_ = Stage::closed;
  why_closed_ = why;
  for (int m = 0; m < members(); ++m) {
    if (members_.at(m).present()) decisions_.send(m, Closed{why});
  }
  decisions_.event(GangEvent::Kind::closed, member, why);
}

void GangController::tick(MonoTime now) {
  if (closed()) return;
  check_silence(now);
  advance(now);
  report_hanging(now);
}

void GangController::check_silence(MonoTime now) {
  for (int i = 0; i < members() && !closed(); ++i) {
    const Member& m = members_.at(i);
    const Duration allowed = allowed_silence(i);
    if (m.present() && now - m.heard > allowed) {
      lost(i, "silent for longer than " + one_decimal(allowed), now);
    }
  }
}

void GangController::report_hanging(MonoTime now) {
  const MonoTime since = running() ? round_.handed() : gathering_since_;
  if (closed() || round_.hanging_reported() || since == MonoTime{}) return;
  if (!running() && members_.in_state(State::waiting).empty()) return;
  const Duration allowed = std::max(kHanging, 10 * timing_.round_time(0.99));
  if (now - since <= allowed) return;
  std::string missing;
  for (int i = 0; i < members(); ++i) {
    const Member& m = members_.at(i);
    const bool owes = running() ? m.state == State::working
                                : m.state != State::waiting &&
                                      m.state != State::gone && m.awaited;
    if (owes) {
      missing += (missing.empty() ? "" : ", ") + members_.describe(i, now);
    }
  }
  if (missing.empty()) return;
  round_.set_hanging_reported();
  const std::string what = running()
                               ? fmt::format("round {} ({})", round_.number(),
                                             name_of(step_->phase()))
                               : "the start of a step";
  decisions_.event(GangEvent::Kind::hanging, -1,
                   fmt::format("{} has been waiting for {}; missing: {}", what,
                               one_decimal(now - since), missing));
}

void GangController::advance(MonoTime now) {
  if (closed()) return;
  if (!running()) return gather(now);
  if (result_is_lost()) {
    return close(fmt::format("no member is left that has trained step {}",
                             step_->number()));
  }
  give_up_silent(now);
  if (!members_.in_state(State::failed).empty()) {
    if (!broken_) broken_since_ = now;
    broken_ = true;
    if (accounted(now)) regroup(now);
    return;
  }
  broken_ = false;
  if (open_round() && wants_regroup()) return regroup(now);
  if (round_.half_ready() == MonoTime{} && half_are_ready()) {
    round_.set_half_ready(now);
  }
  if (round_complete(now)) finish_round(now);
}

GangStatus GangController::status() const {
  GangStatus status;
  status.gang = options_.gang;
  status.phase = step_ ? step_->phase() : Phase::train;
  status.round = round_.number();
  status.samples_per_second = timing_.samples_per_second();
  for (int i = 0; i < members(); ++i) {
    status.members.push_back(members_.status(i));
    timing_.describe(i, status.members.back());
  }
  return status;
}

}  // namespace dtune::gang
