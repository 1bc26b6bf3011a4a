#include "gang/simulated_gang.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

namespace dtune::simulated {
namespace {

using namespace gang;  // NOLINT: its messages

GangOptions options_of(const Setting& setting) {
  GangOptions options;
  options.gang = "1.1";
  options.parallel.mode = ParallelMode::data;
  options.parallel.ranks = setting.ranks;
  options.parallel.predictor = PredictorKind::last;
  options.parallel.stragglers = setting.stragglers;
  options.lease = setting.lease;
  return options;
}

// DTUNE_GANG_TRACE=<seed>: what happens, line by line.
bool traced(uint64_t seed) {
  static const char* const text = std::getenv("DTUNE_GANG_TRACE");
  return text != nullptr && std::stoull(text) == seed;
}

std::string text_of(const Work& work) {
  int64_t size = 0;
  for (const Span& span : work.spans) size += span.size;
  return fmt::format("work {} phase {} of {} gets {}", work.round,
                     static_cast<int>(work.phase), work.batch_samples, size);
}

std::string text_of(const Order& order) {
  if (const auto* o = std::get_if<Regroup>(&order)) {
    return fmt::format(
        "regroup {} step {} updates {} members {} source {} targets {} {}",
        o->incarnation, o->step, o->updates, fmt::join(o->members, ","),
        o->source, fmt::join(o->targets, ","), text_of(o->work));
  }
  if (const auto* o = std::get_if<Go>(&order)) {
    return fmt::format("go {}{} with {} source {} targets {} {}", o->round,
                       o->last ? " last" : "", fmt::join(o->participants, ","),
                       o->source, fmt::join(o->targets, ","), text_of(o->next));
  }
  if (const auto* o = std::get_if<CatchUp>(&order)) {
    return fmt::format("catch up after {} updates {} source {} {}", o->round,
                       o->updates, o->source, text_of(o->work));
  }
  if (const auto* o = std::get_if<GiveUp>(&order)) {
    return fmt::format("give up {} of {}", o->member, o->incarnation);
  }
  return "end";
}

}  // namespace

Gang::Gang(const Setting& setting)
    : setting_(setting),
      traced_(traced(setting.seed)),
      rng_(mix_seed({setting.seed, hash_text("gang")})),
      now_(std::chrono::seconds(1)),
      controller_(options_of(setting), now_),
      processes_(static_cast<size_t>(setting.ranks)) {
  setting_.speeds.resize(processes_.size(), 10'000);
  for (int m = 0; m < setting.ranks; ++m) {
    later(jitter(200), [this, m] { start(m); });
  }
}

int Gang::count(GangEvent::Kind kind) const {
  return static_cast<int>(
      std::count_if(events.begin(), events.end(),
                    [kind](const GangEvent& e) { return e.kind == kind; }));
}

int Gang::alive() const {
  return static_cast<int>(
      std::count_if(processes_.begin(), processes_.end(),
                    [](const Process& p) { return p.alive && !p.over; }));
}

void Gang::fail(const std::string& what) {
  if (problem.empty()) {
    problem = fmt::format("seed {}, {:.3f} s: {}", setting_.seed,
                          to_seconds(elapsed()), what);
  }
}

Duration Gang::jitter(double most_ms) {
  return from_seconds(rng_.uniform(0.01, most_ms) / 1e3);
}

void Gang::write(const std::string& text) const {
  fmt::print(stderr, "{:.4f} {}\n", to_seconds(elapsed()), text);
}

void Gang::later(Duration in, std::function<void()> act) {
  queue_.emplace(now_ + in, std::move(act));
}

void Gang::at(Duration when, std::function<void()> act) {
  queue_.emplace(MonoTime{} + std::chrono::seconds(1) + when, std::move(act));
}

// What a process does; not while it is suspended, never after its death.
void Gang::as(int member, Duration in, std::function<void()> act) {
  const int64_t life = process(member).life;
  later(in, [this, member, life, act = std::move(act)] {
    Process& p = process(member);
    if (!p.alive || p.life != life) return;
    if (p.suspended_until > now_) {
      return as(member, p.suspended_until - now_, act);
    }
    act();
  });
}

// How long it has been suspended so far.
Duration Gang::stopped(int member) const {
  const Process& p = process(member);
  return p.stopped_before + std::min(now_, p.suspended_until) -
         std::min(now_, p.suspended_from);
}

// Needs the process for so long, in which suspensions do not count.
void Gang::compute(int member, Duration takes, std::function<void()> act) {
  const MonoTime running = now_ - stopped(member) + takes;
  as(member, takes, [this, member, running, act = std::move(act)] {
    const Duration left = running - (now_ - stopped(member));
    if (left <= Duration{0}) return act();
    compute(member, left, act);
  });
}

void Gang::run(Duration limit) {
  MonoTime tick = now_;
  MonoTime beat = now_;
  const MonoTime end = now_ + limit;
  while (problem.empty()) {
    const bool all_over = alive() == 0 && queue_.empty();
    if (closed || all_over || committed == setting_.steps) return;
    if (now_ > end) {
      std::string text = "no end: " + std::to_string(committed) + " steps";
      const GangStatus status = controller_.status();
      for (const MemberStatus& m : status.members) {
        text += fmt::format(" [{}]", m.phase);
      }
      return fail(text);
    }
    const MonoTime due = queue_.empty() ? tick : queue_.begin()->first;
    if (due < tick) {
      now_ = due;
      const auto act = std::move(queue_.begin()->second);
      queue_.erase(queue_.begin());
      act();
    } else {
      now_ = tick;
      tick += GangController::kTick;
      if (now_ >= beat) {
        beat += controller_.options().heartbeat;
        for (int m = 0; m < setting_.ranks; ++m) {
          const Process& p = process(m);
          if (p.alive && p.known && p.suspended_until <= now_ &&
              p.cut_until <= now_) {
            controller_.heard(m, now_);
          }
        }
      }
      controller_.tick(now_);
    }
    pump();
    if (alive() == 0 &&
        std::none_of(processes_.begin(), processes_.end(),
                     [](const Process& p) { return p.alive; }) &&
        queue_.empty()) {
      return;
    }
  }
}

void Gang::start(int member) {
  Process& p = process(member);
  if (p.known) controller_.lost(member, "a new process", now_);
  pump();
  const int64_t life = p.life + 1;
  const MonoTime last = p.last_arrival;
  p = Process();
  p.life = life;
  p.last_arrival = last;
  p.alive = true;
  p.known = true;
  p.state = checkpoint_;
  p.step = checkpoint_step_ + 1;
  controller_.joined(member, now_);
  as(member, jitter(50), [this, member] { begin(member); });
}

Begin Gang::begin_of(const Process& p) const {
  Begin begin;
  begin.step = p.step;
  begin.updates = p.told_updates;
  begin.end = p.step * setting_.step_samples;
  begin.epoch_samples = setting_.samples;
  begin.batch_size = setting_.batch;
  begin.evaluation_batches = 9;
  return begin;
}

void Gang::begin(int member) {
  Process& p = process(member);
  p.in_step = true;
  p.told_updates = static_cast<int64_t>(p.state.size());
  Begin begin = begin_of(p);
  for (const int64_t round : p.state) {
    for (const int who : participants_.at(round)) {
      for (const Span& span : handed_.at(round).spans.at(who)) {
        begin.position += span.size;
      }
    }
  }
  say([&] {
    return fmt::format("{} begins {} at {}", member, begin.step, begin.updates);
  });
  deliver(member, p.life, kMs / 10,
          [this, member, begin] { controller_.begin(member, begin, now_); });
}

// Over the wire: in order, late where the wire is cut.
void Gang::tell(int member, const std::function<void()>& message) {
  Process& p = process(member);
  const int64_t life = p.life;
  const bool twice = chance() < setting_.faults.repeat;
  deliver(member, life, kMs / 10, message);
  if (twice) deliver(member, life, jitter(300), message);
}

void Gang::deliver(int member, int64_t life, Duration in,
                   const std::function<void()>& message) {
  later(in, [this, member, life, message] {
    const Process& p = process(member);
    if (p.life != life || !p.known) return;
    if (p.cut_until > now_) {
      return deliver(member, life, p.cut_until - now_, message);
    }
    controller_.heard(member, now_);
    message();
  });
}

void Gang::pump() {
  for (GangEvent& event : controller_.take_events()) {
    say([&] { return "event " + event.text; });
    if (event.kind == GangEvent::Kind::lost && event.member >= 0) {
      process(event.member).known = false;
    }
    if (event.kind == GangEvent::Kind::closed) closed = true;
    events.push_back(std::move(event));
  }
  for (GangController::Outgoing& out : controller_.take_orders()) {
    Process& p = process(out.member);
    say([&] {
      return fmt::format("-> {} {}", out.member, text_of(out.order));
    });
    if (!p.alive) continue;
    if (const auto* go = std::get_if<Go>(&out.order)) note_go(*go);
    const MonoTime arrival =
        std::max({now_ + jitter(1), p.last_arrival + Duration(1), p.cut_until});
    p.last_arrival = arrival;
    const int64_t life = p.life;
    queue_.emplace(arrival, [this, m = out.member, life,
                             order = std::move(out.order)]() mutable {
      arrive(m, life, std::move(order));
    });
  }
}

void Gang::arrive(int member, int64_t life, Order order) {
  Process& p = process(member);
  if (!p.alive || p.life != life) return;
  const bool ends = std::holds_alternative<Closed>(order) ||
                    std::holds_alternative<Evicted>(order);
  if (!p.known && !ends) return;  // the link is anew
  if (p.cut_until > now_) {       // it was cut meanwhile
    queue_.emplace(p.cut_until, [this, member, life, order]() mutable {
      arrive(member, life, std::move(order));
    });
    return;
  }
  if (const auto* silent = std::get_if<GiveUp>(&order)) {
    return as(member, Duration{0},
              [this, member, silent = *silent] { give_up(member, silent); });
  }
  p.inbox.push_back(std::move(order));
  if (p.computing != 0 && p.backward) {
    as(member, kLayer, [this, member, computing = p.computing] {
      look_for_orders(member, computing);
    });
  }
  as(member, Duration{0}, [this, member] { next(member); });
}

}  // namespace dtune::simulated
