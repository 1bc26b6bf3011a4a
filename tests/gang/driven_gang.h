// A gang's controller whose time and messages are set by a test.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "dtune/gang/controller.h"

namespace dtune {

using Kind = GangEvent::Kind;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A controller driven by hand.
struct DrivenGang {
  explicit DrivenGang(const ParallelSpec& parallel)
      : controller(options_of(parallel), MonoTime{seconds(1)}) {}

  static GangOptions options_of(const ParallelSpec& parallel) {
    GangOptions options;
    options.gang = "3.1";
    options.parallel = parallel;
    options.nodes = {"head", "gpu1", "gpu2"};
    return options;
  }

  void all_begin(const gang::Begin& begin) {
    for (int m = 0; m < controller.members(); ++m) controller.joined(m, now);
    for (int m = 0; m < controller.members(); ++m)
      controller.begin(m, begin, now);
  }

  void ready(int member, int64_t round, int64_t updates = 0,
             bool complete = true) {
    gang::Ready ready;
    ready.round = round;
    ready.updates = updates;
    ready.complete = complete;
    controller.ready(member, ready, now);
  }

  // Time goes by; `talking` members are heard.
  void pass(Duration how_long, const std::vector<int>& talking) {
    const MonoTime end = now + how_long;
    while (now < end) {
      now += milliseconds(100);
      for (const int m : talking) controller.heard(m, now);
      controller.tick(now);
    }
  }

  // Orders to `member` since the last call.
  std::vector<gang::Order> orders(int member) {
    for (auto& out : controller.take_orders()) all.push_back(std::move(out));
    std::vector<gang::Order> found;
    for (auto it = all.begin(); it != all.end();) {
      const bool mine = it->member == member;
      if (mine) found.push_back(it->order);
      it = mine ? all.erase(it) : it + 1;
    }
    return found;
  }

  template <class T>
  T last(int member) {
    const auto found = orders(member);
    REQUIRE(!found.empty());
    REQUIRE(std::holds_alternative<T>(found.back()));
    return std::get<T>(found.back());
  }

  std::string event(Kind kind) {
    for (const GangEvent& e : controller.take_events()) events.push_back(e);
    for (const GangEvent& e : events) {
      if (e.kind == kind) return e.text;
    }
    return "";
  }

  MonoTime now{seconds(1)};
  gang::GangController controller;
  std::vector<gang::GangController::Outgoing> all;
  std::vector<GangEvent> events;
};

inline ParallelSpec spec(ParallelMode mode, int ranks) {
  ParallelSpec parallel;
  parallel.mode = mode;
  parallel.ranks = ranks;
  parallel.predictor = PredictorKind::last;
  return parallel;
}

inline gang::Begin own_step() {
  gang::Begin begin;
  begin.end = begin.epoch_samples = 100;
  begin.batch_size = 10;
  begin.own_training = true;
  return begin;
}

// With a validation split.
inline gang::Begin judged_step() {
  gang::Begin begin = own_step();
  begin.evaluation_batches = 8;
  return begin;
}

// Members 0 and 1 compute, the rest are parameter servers.
inline ParallelSpec two_workers(int servers) {
  ParallelSpec parallel = spec(ParallelMode::data, 2);
  parallel.sync = SyncKind::ps;
  parallel.ps.servers = servers;
  return parallel;
}

}  // namespace dtune
