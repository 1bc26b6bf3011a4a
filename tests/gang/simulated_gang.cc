#include "gang/simulated_gang.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "dtune/gang/members.h"

namespace dtune::simulated {
namespace {

using namespace gang;  // NOLINT: its messages

constexpr Duration kMs = std::chrono::milliseconds(1);

GangOptions options_of(const Setting& setting) {
  GangOptions options;
  options.gang = "1.1";
  options.parallel.mode = ParallelMode::data;
  options.parallel.ranks = setting.ranks;
  options.parallel.predictor = PredictorKind::last;
  options.parallel.stragglers = setting.stragglers;
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
  return "end";
}

}  // namespace

Gang::Gang(const Setting& setting)
    : setting_(setting),
      rng_(mix_seed({setting.seed, hash_text("gang")})),
      now_(std::chrono::seconds(1)),
      master_(options_of(setting), now_),
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

template <class Text>
void Gang::say(const Text& text) const {
  if (!traced(setting_.seed)) return;
  fmt::print(stderr, "{:.4f} {}\n", to_seconds(elapsed()), text());
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

void Gang::run(Duration limit) {
  MonoTime tick = now_;
  MonoTime beat = now_;
  const MonoTime end = now_ + limit;
  while (problem.empty()) {
    const bool all_over = alive() == 0 && queue_.empty();
    if (closed || all_over || committed == setting_.steps) return;
    if (now_ > end) {
      std::string text = "no end: " + std::to_string(committed) + " steps";
      const GangStatus status = master_.status(now_);
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
      tick += GangMaster::kTick;
      if (now_ >= beat) {
        beat += 200 * kMs;
        for (int m = 0; m < setting_.ranks; ++m) {
          const Process& p = process(m);
          if (p.alive && p.known && p.suspended_until <= now_ &&
              p.cut_until <= now_) {
            master_.heard(m, now_);
          }
        }
      }
      master_.tick(now_);
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
  if (p.known) master_.lost(member, "a new process", now_);
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
  master_.joined(member, now_);
  as(member, jitter(50), [this, member] { begin(member); });
}

void Gang::begin(int member) {
  Process& p = process(member);
  p.in_step = true;
  p.told_updates = static_cast<int64_t>(p.state.size());
  Begin begin;
  begin.step = p.step;
  begin.updates = p.told_updates;
  for (const int64_t round : p.state) {
    for (const int who : participants_.at(round)) {
      for (const Span& span : handed_.at(round).spans.at(who)) {
        begin.position += span.size;
      }
    }
  }
  begin.end = p.step * setting_.step_samples;
  begin.epoch_samples = setting_.samples;
  begin.batch_size = setting_.batch;
  begin.evaluation_batches = 9;
  say([&] {
    return fmt::format("{} begins {} at {}", member, begin.step, begin.updates);
  });
  deliver(member, p.life, kMs / 10,
          [this, member, begin] { master_.begin(member, begin, now_); });
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
    master_.heard(member, now_);
    message();
  });
}

void Gang::pump() {
  for (GangEvent& event : master_.take_events()) {
    say([&] { return "event " + event.text; });
    if (event.kind == GangEvent::Kind::lost && event.member >= 0) {
      process(event.member).known = false;
    }
    if (event.kind == GangEvent::Kind::closed) closed = true;
    events.push_back(std::move(event));
  }
  for (GangMaster::Outgoing& out : master_.take_orders()) {
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
  p.inbox.push_back(std::move(order));
  as(member, Duration{0}, [this, member] { next(member); });
}

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
        } else {
          take(member, o);
        }
      },
      order);
}

void Gang::take(int member, const Regroup& order) {
  Process& p = process(member);
  leave_meetings(member);
  p.broken = false;
  p.incarnation = order.incarnation;
  p.group = order.members;
  p.work = order.work;
  p.step = order.step;
  meet(fmt::format("group {}", order.incarnation), order.members, member,
       [this, member, order](bool good) {
         if (!good) return broke(member);
         const auto go_on = [this, member, order] { work(member, order.work); };
         if (order.source == member) {
           return serve(member, order.targets, order.work.round, go_on);
         }
         if (contains(order.targets, member)) {
           return receive(member, order.source, order.work.round, go_on);
         }
         go_on();
       });
}

void Gang::take(int member, const CatchUp& order) {
  const auto go_on = [this, member, order] { work(member, order.work); };
  if (order.source < 0) return go_on();
  receive(member, order.source, order.work.round, go_on);
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
  // All that need the data plane: a gradient, or the answers of an evaluation.
  meet(fmt::format("reduce {}", order.round), order.participants, member,
       [this, member, order](bool good) { reduced(member, order, good); });
}

void Gang::reduced(int member, const Go& order, bool good) {
  Process& p = process(member);
  if (!good) return broke(member);
  if (p.work.phase == Phase::train) p.state.push_back(order.round);
  const auto go_on = [this, member, order] { work(member, order.next); };
  if (order.source == member) {
    return serve(member, order.targets, order.next.round, go_on);
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
  ready.times.backward = seconds;
  say([&] {
    return fmt::format("{} ready {} in {:.3f}", member, work.round, seconds);
  });
  if (work.phase == Phase::train) draw_faults(member);
  as(member, from_seconds(seconds + 1e-4), [this, member, ready] {
    Process& q = process(member);
    q.busy = false;
    q.told_updates = ready.updates;
    tell(member, [this, member, ready] { master_.ready(member, ready, now_); });
    next(member);
  });
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
       [this, member, failed] { master_.failed(member, failed, now_); });
  as(member, kMs, [this, member] { next(member); });
}

void Gang::serve(int member, std::vector<int> targets, int64_t round,
                 std::function<void()> then) {
  if (targets.empty()) return then();
  const int target = targets.front();
  targets.erase(targets.begin());
  meet(fmt::format("state {} {}", round, target), {member, target}, member,
       [this, member, targets, round, then](bool good) {
         if (!good) return broke(member);
         serve(member, targets, round, then);
       });
}

void Gang::receive(int member, int source, int64_t round,
                   std::function<void()> then) {
  meet(fmt::format("state {} {}", round, member), {source, member}, member,
       [this, member, source, then](bool good) {
         if (!good) return broke(member);
         process(member).state = process(source).state;
         process(member).step = process(source).step;
         then();
       });
}

void Gang::meet(const std::string& name, std::vector<int> who, int member,
                std::function<void(bool)> then) {
  Meeting& meeting = meetings_[name];
  meeting.who = std::move(who);
  meeting.incarnation = process(member).incarnation;
  meeting.arrived[member] = std::move(then);
  // A peer that does not come breaks it in the end.
  as(member, std::chrono::seconds(5), [this, name, member] {
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
      std::any_of(meeting.who.begin(), meeting.who.end(), [&](int m) {
        const Process& p = process(m);
        return !p.alive || p.over ||
               (!meeting.arrived.contains(m) &&
                (p.incarnation > meeting.incarnation ||
                 (p.incarnation == meeting.incarnation && p.broken)));
      });
  const bool complete = meeting.arrived.size() == meeting.who.size();
  if (!hopeless && !complete) return;
  if (complete && name.starts_with("reduce")) check_equal(meeting.who);
  const bool torn = chance() < setting_.faults.tear;
  auto arrived = std::move(meeting.arrived);
  const bool good = complete && !hopeless;
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
  leave_meetings(member);
  const int64_t life = p.life;
  if (!known) return;
  later(50 * kMs, [this, member, life] {
    if (process(member).life == life) master_.lost(member, "killed", now_);
  });
}

// What its server has not heard of while it was silent for too long is void;
// then it is as new.
void Gang::suspend(int member, Duration how_long) {
  Process& p = process(member);
  if (!p.alive) return;
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
    master_.joined(member, now_);
    if (!q.in_step) return;
    Begin begin;
    begin.step = q.step;
    begin.updates = q.told_updates;
    begin.end = q.step * setting_.step_samples;
    begin.epoch_samples = setting_.samples;
    begin.batch_size = setting_.batch;
    begin.evaluation_batches = 9;
    deliver(member, q.life, kMs / 10,
            [this, member, begin] { master_.begin(member, begin, now_); });
  });
}

void Gang::restart(int member) {
  if (!process(member).alive && !closed) start(member);
}

void Gang::note_go(const Go& order) {
  if (!participants_.emplace(order.round, order.participants).second) return;
  gos.push_back(order);
  if (order.last) check_commit(order);
}

void Gang::check_equal(const std::vector<int>& who) {
  for (const int m : who) {
    if (process(m).state != process(who.front()).state) {
      fail(fmt::format("ranks {} and {} have applied different updates",
                       who.front(), m));
    }
  }
}

// The checkpoint holds every sample of every whole batch before the step's end,
// once in each epoch, and goes on from the checkpoint before.
void Gang::check_commit(const Go& order) {
  // A lead that dies just after it has written one lets a step end unheard.
  if (checkpoint_step_ <= committed) {
    return fail(
        fmt::format("a step was committed after {} with the checkpoint "
                    "of {}",
                    committed, checkpoint_step_));
  }
  committed = checkpoint_step_;
  std::map<int64_t, std::vector<int>> seen;
  int64_t total = 0;
  for (const int64_t round : checkpoint_) {
    const Handed& handed = handed_.at(round);
    auto& counts = seen[handed.epoch];
    counts.resize(static_cast<size_t>(setting_.samples), 0);
    for (const int m : participants_.at(round)) {
      for (const Span& span : handed.spans.at(m)) {
        total += span.size;
        for (int64_t i = span.first; i < span.first + span.size; ++i) {
          ++counts.at(static_cast<size_t>(i));
        }
      }
    }
  }
  const int64_t wanted = committed * setting_.step_samples;
  const BatchRange last =
      BatchCutter(setting_.samples, setting_.batch).at(wanted - 1);
  const int64_t end = last.epoch * setting_.samples + last.first + last.size;
  if (total != end) {
    fail(fmt::format("step {} ends with {} samples, not {}", committed, total,
                     end));
  }
  for (const auto& [epoch, counts] : seen) {
    const int64_t part =
        std::min(setting_.samples, end - epoch * setting_.samples);
    for (int64_t i = 0; i < setting_.samples; ++i) {
      if (counts[static_cast<size_t>(i)] != (i < part ? 1 : 0)) {
        return fail(fmt::format("sample {} of epoch {} was trained {} times", i,
                                epoch, counts[static_cast<size_t>(i)]));
      }
    }
  }
  static_cast<void>(order);
}

}  // namespace dtune::simulated
