// What server 0 does as time goes by: sends signs of life, finds out which do
// not, and names the one that it has waited for too long.
#include <fmt/format.h>

#include "dtune/parameter_server/ps_leader.h"

namespace dtune {
namespace {

constexpr Duration kNotice = std::chrono::seconds(1);
// Of a worker that the others wait for, before it is known how long gradients
// take; and of one that has the end of the step before it.
constexpr Duration kUnknownPace = std::chrono::seconds(5);
constexpr Duration kEndPatience = std::chrono::seconds(1);

}  // namespace

void PsLeader::notice() {
  const MonoTime now = system_clock().now();
  if (!clock_ || now - noticed_ < kNotice) return;
  noticed_ = now;
  for (const auto& [member, other] : clock_->waiting()) {
    endpoint_.send_to(member, ps::Wait{plan_.session, other});
  }
  // A peer that gets no message is not connected any more.
  for (const int member : clock_->present_members()) {
    if (!endpoint_.send_to(member, ps::Alive{plan_.session})) remove(member);
    if (!clock_) return;
  }
  // Before there are orders this may be one of a step that was broken off.
  if (clock_->present_members().empty()) {
    std::erase_if(followers_, [this](const auto& follower) {
      return !endpoint_.send(follower.second, ps::Alive{plan_.session});
    });
  } else {
    send_followers(ps::Alive{plan_.session});
  }
}

// A rank that the others wait for is left out once it took much longer than
// they did, so that neither a stopped worker nor a spike holds a batch, a bound
// or the end of a step. It is in again as soon as it sends what it owed.
void PsLeader::watch_workers() {
  if (plan_.parallel.stragglers == StragglerPolicy::off) return;
  const MonoTime now = system_clock().now();
  note_debts(now);
  const size_t active = clock_->active_members().size();
  if (owed_.empty() || 2 * owed_.size() > active) {
    half_since_ = MonoTime{};
    return;
  }
  if (half_since_ == MonoTime{}) half_since_ = now;
  std::vector<int> late;
  for (const auto& [member, debt] : owed_) {
    if (overdue(debt, now)) late.push_back(member);
  }
  for (const int member : late) leave_out(member);
}

void PsLeader::note_debts(MonoTime now) {
  const std::map<int, int64_t> owed = clock_->owed();
  for (auto debt = owed_.begin(); debt != owed_.end();) {
    const auto still = owed.find(debt->first);
    if (still != owed.end() && still->second == debt->second.what) {
      ++debt;
      continue;
    }
    if (debt->second.what != PsClock::kBuffers) {
      pace_.add(now - debt->second.since);
      pace_.end_round();
    }
    debt = owed_.erase(debt);
  }
  for (const auto& [member, what] : owed) {
    owed_.try_emplace(member, Debt{what, now});
  }
}

bool PsLeader::overdue(const Debt& debt, MonoTime now) const {
  // Where all have become slower, none is late.
  const Duration alone = now - half_since_;
  if (alone < std::max(gang::Pace::kFloor, pace_.quantile(0.5) / 4)) {
    return false;
  }
  const Duration waited = now - debt.since;
  const auto deadline = pace_.deadline(Duration{0});
  if (!deadline) return waited > kUnknownPace;
  if (debt.what == PsClock::kBuffers) return waited > kEndPatience + *deadline;
  return waited > *deadline;
}

void PsLeader::leave_out(int member) {
  owed_.erase(member);
  std::erase_if(pending_,
                [=](const auto& p) { return p.first.first == member; });
  clock_->leave_out(member);
  run_actions();
}

void PsLeader::check_patience() {
  const MonoTime now = system_clock().now();
  const auto seconds = to_seconds(options_.patience);
  if (now - began_ > options_.patience) {
    for (int server = 1; server < options_.servers; ++server) {
      if (followers_.contains(server)) continue;
      break_off(false, fmt::format("parameter server: server {} has not "
                                   "connected for {:.0f} s",
                                   server, seconds));
    }
    const std::vector<int> missing = clock_->missing();
    if (!missing.empty() && clock_->version() == 0) {
      break_off(false, fmt::format("parameter server: member {} has not "
                                   "connected for {:.0f} s",
                                   missing.front(), seconds));
    }
  }
  for (const auto& [key, pending] : pending_) {
    if (now - pending.since < options_.patience) continue;
    break_off(
        false,
        fmt::format("parameter server: a gradient of member {} has "
                    "reached {} of {} servers in {:.0f} s",
                    key.first, pending.arrived.size() + (pending.push ? 1 : 0),
                    options_.servers, seconds));
  }
}

}  // namespace dtune
