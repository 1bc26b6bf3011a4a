// What server 0 does as time goes by: sends signs of life, finds out who does
// not, and names the one that it has waited for too long.
#include <fmt/format.h>

#include "dtune/parameter_server/ps_leader.h"

namespace dtune {
namespace {

constexpr Duration kNotice = std::chrono::seconds(1);

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

void PsLeader::check_patience() {
  const MonoTime now = system_clock().now();
  const auto seconds = to_seconds(options_.patience);
  if (now - began_ > options_.patience) {
    for (int server = 1; server < options_.servers; ++server) {
      if (followers_.contains(server)) continue;
      break_off(false, fmt::format("parameter server: server {} has not come "
                                   "for {:.0f} s",
                                   server, seconds));
    }
    const std::vector<int> missing = clock_->missing();
    if (!missing.empty() && clock_->version() == 0) {
      break_off(false, fmt::format("parameter server: member {} has not come "
                                   "for {:.0f} s",
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
