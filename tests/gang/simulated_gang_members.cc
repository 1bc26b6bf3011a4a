// What members do with their orders, and how they meet over the data plane.
#include <algorithm>
#include <type_traits>
#include <utility>

#include "gang/simulated_gang.h"
#include <fmt/format.h>

#include "dtune/gang/members.h"

namespace dtune::simulated {

using namespace gang;  // NOLINT: its messages

void Gang::next(int member) {
  Process& p = process(member);
  if (p.busy || p.inbox.empty() || p.over || !p.in_step) return;
  const Order order = std::move(p.inbox.front());
  p.inbox.erase(p.inbox.begin());
  const auto* go = std::get_if<Go>(&order);
  const bool fits =
      go == nullptr || go->last || (!p.broken && go->round == p.work.round);
  if (!fits) return next(member);
  p.busy = true;
  std::visit(
      [&](const auto& o) {
        if constexpr (requires { o.why; }) {
          p.over = true;
        } else if constexpr (!std::is_same_v<decltype(o), const GiveUp&>) {
          take(member, o);
        }
      },
      order);
}

void Gang::take(int member, const Regroup& order) {
  Process& p = process(member);
  const bool kept = order.incarnation == p.incarnation;
  if (kept && p.broken) return broke(member);
  p.work = order.work;
  p.step = order.step;
  if (kept) return grouped(member, order);
  leave_meetings(member);
  p.broken = false;
  p.incarnation = order.incarnation;
  p.group = order.members;
  meet(fmt::format("group {}", order.incarnation), order.members, member,
       order.patience, [this, member, order](bool good) {
         if (!good) return broke(member);
         grouped(member, order);
       });
}

void Gang::grouped(int member, const Regroup& order) {
  const auto go_on = [this, member, order] { work(member, order.work); };
  if (order.source == member) {
    return serve(member, order.targets, order.work.round, order.patience,
                 go_on);
  }
  if (contains(order.targets, member)) {
    return receive(member, order.source, order.work.round, order.patience,
                   go_on);
  }
  go_on();
}

void Gang::take(int member, const CatchUp& order) {
  const auto go_on = [this, member, order] { work(member, order.work); };
  if (order.source < 0) return go_on();
  receive(member, order.source, order.work.round, order.patience, go_on);
}

void Gang::take(int member, const Go& order) {
  Process& p = process(member);
  if (order.last) {
    p.in_step = false;
    p.busy = false;
    p.inbox.clear();
    if (p.step++ == setting_.steps) {
      p.over = true;
      return;
    }
    as(member, jitter(5), [this, member] { begin(member); });
    return;
  }
  if (p.suspended_in_reduction > Duration{0} && p.work.phase == Phase::train) {
    suspend(member, std::exchange(p.suspended_in_reduction, Duration{0}));
    return as(member, Duration{0},
              [this, member, order] { take(member, order); });
  }
  // All that need the data plane: a gradient, or the answers of an evaluation.
  meet(fmt::format("reduce {}", order.round), order.participants, member,
       order.patience,
       [this, member, order](bool good) { reduced(member, order, good); });
}

void Gang::reduced(int member, const Go& order, bool good) {
  Process& p = process(member);
  if (!good) return broke(member);
  if (p.work.phase == Phase::train) p.state.push_back(order.round);
  const auto go_on = [this, member, order] { work(member, order.next); };
  if (order.source == member) {
    return serve(member, order.targets, order.next.round, order.patience,
                 go_on);
  }
  go_on();
}

void Gang::work(int member, const Work& work) {
  Process& p = process(member);
  p.work = work;
  Handed& handed = handed_[work.round];
  // An evicted member's last work is empty and says nothing.
  if (!work.spans.empty()) handed.epoch = work.epoch;
  handed.spans[member] = work.spans;
  if (work.phase == Phase::commit && !work.spans.empty()) {
    checkpoint_ = p.state;
    checkpoint_step_ = p.step;
  }
  Ready ready;
  ready.round = work.round;
  ready.updates = static_cast<int64_t>(p.state.size());
  for (const Span& span : work.spans) ready.totals.samples += span.size;
  double seconds = static_cast<double>(ready.totals.samples) /
                   setting_.speeds[static_cast<size_t>(member)];
  seconds *= rng_.uniform(0.95, 1.05);
  if (chance() < setting_.faults.spike) seconds *= 20;
  ready.times.samples = ready.totals.samples;
  say([&] {
    return fmt::format("{} ready {} in {:.3f}", member, work.round, seconds);
  });
  if (work.phase == Phase::train) draw_faults(member);
  // Some are ready at their first gradient, and go on computing.
  const bool early = work.phase == Phase::train && chance() < setting_.overlap;
  const Duration then = stopped(member);
  const auto measure = [this, member, ready, then, seconds] {
    Ready now = ready;
    now.times.stopped = to_seconds(stopped(member) - then);
    now.times.backward = seconds + now.times.stopped;
    now.times.until_ready = 0.6 * seconds + now.times.stopped;
    return now;
  };
  const int64_t computing = p.computing = ++computations_;
  p.backward = false;
  compute(member, from_seconds(0.4 * seconds), [this, member, computing] {
    if (process(member).computing != computing) return;
    process(member).backward = true;
    look_for_orders(member, computing);
  });
  if (early) {
    compute(member, from_seconds(0.6 * seconds),
            [this, member, measure, computing] {
              if (process(member).computing != computing) return;
              Ready first = measure();
              first.complete = false;
              say_ready(member, first);
            });
  }
  compute(member, from_seconds(seconds + 1e-4),
          [this, member, measure, early, computing] {
            Process& q = process(member);
            if (q.computing != computing) return;
            q.computing = 0;
            q.busy = false;
            if (!early || q.inbox.empty()) say_ready(member, measure());
            next(member);
          });
}

// After the forward pass and between layers of the backward pass: all but a go
// makes void what is computed.
void Gang::look_for_orders(int member, int64_t computing) {
  Process& p = process(member);
  const bool all_go =
      std::all_of(p.inbox.begin(), p.inbox.end(),
                  [](const Order& o) { return std::holds_alternative<Go>(o); });
  if (p.computing != computing || all_go) return;
  p.computing = 0;
  p.busy = false;
  next(member);
}

void Gang::say_ready(int member, const Ready& ready) {
  process(member).told_updates = ready.updates;
  tell(member,
       [this, member, ready] { controller_.ready(member, ready, now_); });
}

void Gang::broke(int member) {
  Process& p = process(member);
  leave_meetings(member);
  p.broken = true;
  p.busy = false;
  Failed failed;
  failed.round = p.work.round;
  failed.incarnation = p.incarnation;
  failed.updates = static_cast<int64_t>(p.state.size());
  failed.what = "a peer did not answer";
  p.told_updates = failed.updates;
  say([&] {
    return fmt::format("{} failed {} of {} at {}", member, failed.round,
                       failed.incarnation, failed.updates);
  });
  tell(member,
       [this, member, failed] { controller_.failed(member, failed, now_); });
  as(member, kMs, [this, member] { next(member); });
}

void Gang::serve(int member, std::vector<int> targets, int64_t round,
                 Duration patience, std::function<void()> then) {
  if (targets.empty()) return then();
  const int target = targets.front();
  targets.erase(targets.begin());
  meet(fmt::format("state {} {}", round, target), {member, target}, member,
       patience, [this, member, targets, round, patience, then](bool good) {
         if (!good) return broke(member);
         serve(member, targets, round, patience, then);
       });
}

void Gang::receive(int member, int source, int64_t round, Duration patience,
                   std::function<void()> then) {
  meet(fmt::format("state {} {}", round, member), {source, member}, member,
       patience, [this, member, source, then](bool good) {
         if (!good) return broke(member);
         process(member).state = process(source).state;
         process(member).step = process(source).step;
         then();
       });
}

void Gang::meet(const std::string& name, std::vector<int> who, int member,
                Duration patience, std::function<void(bool)> then) {
  Meeting& meeting = meetings_[name];
  meeting.who = std::move(who);
  meeting.incarnation = process(member).incarnation;
  meeting.arrived[member] = std::move(then);
  // A peer that does not come breaks it in the end.
  as(member, patience, [this, name, member] {
    const auto found = meetings_.find(name);
    if (found == meetings_.end()) return;
    auto node = found->second.arrived.extract(member);
    if (!node.empty()) node.mapped()(false);
  });
  settle(name);
}

// Goes on where all have come; breaks where one never will.
void Gang::settle(const std::string& name) {
  Meeting& meeting = meetings_.at(name);
  const bool hopeless =
      meeting.closed ||
      std::any_of(meeting.who.begin(), meeting.who.end(), [&](int m) {
        const Process& p = process(m);
        return !p.alive || p.over ||
               (!meeting.arrived.contains(m) &&
                (p.incarnation > meeting.incarnation ||
                 (p.incarnation == meeting.incarnation && p.broken)));
      });
  const bool complete = meeting.arrived.size() == meeting.who.size();
  if (!hopeless && !complete) return;
  const bool torn = chance() < setting_.faults.tear;
  auto arrived = std::move(meeting.arrived);
  const bool good = complete && !hopeless;
  if (good && name.starts_with("reduce")) check_equal(meeting.who);
  if (good) {
    meetings_.erase(name);
  } else {
    meeting.arrived.clear();
  }
  for (auto& [m, then] : arrived) {
    const bool success = good && !(torn && chance() < 0.5);
    as(m, good ? kMs / 2 : 10 * kMs,
       [then = std::move(then), success] { then(success); });
  }
}

// What it waits for with the silent member, but while groups are made.
void Gang::give_up(int member, const GiveUp& order) {
  if (process(member).incarnation != order.incarnation) return;
  for (auto& [name, meeting] : meetings_) {
    const bool waits = meeting.incarnation == order.incarnation &&
                       contains(meeting.who, order.member) &&
                       !name.starts_with("group");
    if (!waits) continue;
    auto node = meeting.arrived.extract(member);
    if (!node.empty()) return node.mapped()(false);
  }
}

// Its peers find its connections closed.
void Gang::leave_meetings(int member) {
  std::vector<std::string> affected;
  for (const auto& [name, meeting] : meetings_) {
    if (contains(meeting.who, member)) affected.push_back(name);
  }
  for (const std::string& name : affected) {
    later(kMs, [this, name] {
      if (meetings_.contains(name)) settle(name);
    });
  }
}

}  // namespace dtune::simulated
