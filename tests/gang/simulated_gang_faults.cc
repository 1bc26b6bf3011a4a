// Processes that die, sleep or cannot be reached.
#include <algorithm>

#include "gang/simulated_gang.h"
#include <fmt/format.h>

#include "dtune/gang/members.h"

namespace dtune::simulated {

using namespace gang;  // NOLINT: its messages

void Gang::draw_faults(int member) {
  const Faults& faults = setting_.faults;
  if (chance() < faults.kill) {
    const bool known = chance() < 0.5;
    const bool again = chance() < faults.restart;
    later(jitter(30), [this, member, known, again] {
      kill(member, known);
      if (again) later(jitter(2000), [this, member] { restart(member); });
    });
  }
  if (chance() < faults.suspend) {
    const double most = chance() < 0.2 ? 25'000 : 1500;
    later(jitter(30), [this, member, d = jitter(most)] { suspend(member, d); });
  }
  if (chance() < faults.cut_off) {
    const double most = chance() < 0.2 ? 25'000 : 1500;
    later(jitter(30), [this, member, d = jitter(most)] { cut_off(member, d); });
  }
}

void Gang::kill(int member, bool known) {
  Process& p = process(member);
  if (!p.alive) return;
  say([&] { return fmt::format("kill {}", member); });
  p.alive = false;
  for (auto& [name, meeting] : meetings_) {
    if (contains(meeting.who, member)) meeting.closed = true;
  }
  leave_meetings(member);
  const int64_t life = p.life;
  if (!known) return;
  later(50 * kMs, [this, member, life] {
    if (process(member).life == life) controller_.lost(member, "killed", now_);
  });
}

// What its server has not heard of while it was silent for too long is void;
// then it is as new.
void Gang::suspend(int member, Duration how_long) {
  Process& p = process(member);
  if (!p.alive) return;
  if (p.suspended_until <= now_) {
    p.stopped_before += p.suspended_until - p.suspended_from;
    p.suspended_from = now_;
  }
  p.suspended_until = std::max(p.suspended_until, now_ + how_long);
  cut_off(member, how_long);
}

void Gang::cut_off(int member, Duration how_long) {
  Process& p = process(member);
  if (!p.alive) return;
  p.cut_until = std::max(p.cut_until, now_ + how_long);
  say([&] {
    return fmt::format("cut {} for {:.3f}", member, to_seconds(how_long));
  });
  as(member, how_long + kMs / 20, [this, member] {
    Process& q = process(member);
    if (q.known || q.cut_until > now_ || q.over || closed) return;
    q.known = true;
    q.inbox.clear();
    controller_.joined(member, now_);
    if (!q.in_step) return;
    deliver(member, q.life, kMs / 10, [this, member, begin = begin_of(q)] {
      controller_.begin(member, begin, now_);
    });
  });
}

void Gang::restart(int member) {
  if (!process(member).alive && !closed) start(member);
}

}  // namespace dtune::simulated
