#include "dtune/gang/controller.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "driven_gang.h"
#include <doctest/doctest.h>

#include "dtune/base/turn_clock.h"

namespace dtune {
TEST_CASE("before its pace is known a gang waits for all members") {
  DrivenGang driven(spec(ParallelMode::data, 2));
  driven.all_begin(
      gang::Begin{.end = 64, .epoch_samples = 64, .batch_size = 8});
  const int64_t round = driven.last<gang::Regroup>(0).work.round;
  for (int64_t i = 0; i < 5; ++i) {
    driven.ready(0, round + i, i);
    driven.pass(seconds(3), {0, 1});
    driven.ready(1, round + i, i);
  }
  CHECK(driven.event(Kind::late) == "");
}

TEST_CASE("one late and one spiking rank are both not waited for") {
  DrivenGang driven(spec(ParallelMode::data, 3));
  driven.all_begin(
      gang::Begin{.end = 960, .epoch_samples = 960, .batch_size = 24});
  int64_t round = driven.last<gang::Regroup>(0).work.round;
  int64_t updates = 0;
  for (; updates < 12; ++updates, ++round) {
    driven.now += milliseconds(10);
    for (const int m : {0, 1, 2}) driven.ready(m, round, updates);
  }
  for (const int m : {0, 1}) driven.ready(m, round, updates);
  driven.pass(seconds(1), {0, 1, 2});
  CHECK(driven.last<gang::Go>(0).participants == std::vector<int>{0, 1});
  // Rank 2 is late still, now rank 1 is as well.
  driven.ready(0, round + 1, updates + 1);
  driven.pass(seconds(1), {0, 1, 2});
  CHECK(driven.last<gang::Go>(0).participants == std::vector<int>{0});
}

TEST_CASE("a rank without heartbeats is not waited for in any phase") {
  DrivenGang driven(spec(ParallelMode::data, 2));
  gang::Begin begin{.end = 16, .epoch_samples = 16, .batch_size = 8};
  begin.evaluation_batches = 4;
  driven.all_begin(begin);
  // In the first round, whose pace is not known.
  int64_t round = driven.last<gang::Regroup>(1).work.round;
  driven.ready(1, round, 0);
  driven.pass(milliseconds(1900), {1});
  CHECK(driven.orders(1).empty());
  driven.pass(milliseconds(300), {1});
  CHECK(driven.last<gang::Go>(1).participants == std::vector<int>{1});
}

TEST_CASE("another writes the checkpoint of a leader that has stopped") {
  DrivenGang driven(spec(ParallelMode::data, 2));
  driven.all_begin(gang::Begin{.end = 8, .epoch_samples = 8, .batch_size = 8});
  int64_t round = driven.last<gang::Regroup>(0).work.round;
  for (const int m : {0, 1}) driven.ready(m, round, 0);
  const gang::Work commit = driven.last<gang::Go>(1).next;
  CHECK(commit.phase == gang::Phase::commit);
  CHECK(commit.spans.empty());
  driven.ready(1, commit.round, 1);
  driven.pass(seconds(3), {1});
  const auto order = driven.last<gang::Regroup>(1);
  CHECK(order.members == std::vector<int>{1});
  CHECK_FALSE(order.work.spans.empty());
  driven.ready(1, order.work.round, 1);
  CHECK(driven.last<gang::Go>(1).last);
}

// Four ranks that are ready every half a second, and talk: until the pace is
// known. The round that is next, and updates.
static std::pair<int64_t, int64_t> train_some(DrivenGang& driven) {
  driven.all_begin(
      gang::Begin{.end = 4800, .epoch_samples = 4800, .batch_size = 48});
  int64_t round = driven.last<gang::Regroup>(0).work.round;
  int64_t updates = 0;
  for (; updates < 12; ++updates, ++round) {
    driven.pass(milliseconds(500), {0, 1, 2, 3});
    for (const int m : {0, 1, 2, 3}) driven.ready(m, round, updates);
  }
  for (const int m : {0, 1, 2, 3}) driven.orders(m);
  return {round, updates};
}

TEST_CASE("what a rank computes that stands still is void") {
  DrivenGang driven(spec(ParallelMode::data, 4));
  const auto [round, updates] = train_some(driven);
  driven.pass(milliseconds(200), {0, 1, 2, 3});
  driven.pass(milliseconds(300), {0, 1, 2});
  for (const int m : {0, 1, 2}) driven.ready(m, round, updates);
  driven.pass(milliseconds(100), {0, 1, 2});
  // Long before 1.5 times the usual round.
  CHECK(driven.last<gang::Go>(0).participants == std::vector<int>{0, 1, 2});
  const auto order = driven.last<gang::CatchUp>(3);
  CHECK(order.source == -1);
  CHECK(order.work.round == round);
  CHECK(order.work.spans.empty());
  // It is back, and its work is ready: it takes part from the next go on.
  driven.ready(3, round, updates);
  CHECK(driven.orders(3).empty());
  for (const int m : {0, 1, 2}) driven.ready(m, round + 1, updates + 1);
  const auto next = driven.last<gang::CatchUp>(3);
  CHECK(next.source >= 0);
  CHECK(next.work.round == round + 2);
  CHECK(samples_of(next.work.spans) == 12);
}

TEST_CASE("what waits for a rank that stopped when it was ready is given up") {
  DrivenGang driven(spec(ParallelMode::data, 4));
  // All reduce round - 1.
  const auto [round, updates] = train_some(driven);
  // As long again would cost them more than the round.
  driven.pass(milliseconds(1000), {0, 1, 2});
  for (const int m : {0, 1, 2, 3}) CHECK(driven.orders(m).empty());
  driven.pass(milliseconds(100), {0, 1, 2});
  for (const int m : {0, 1, 2}) {
    const auto order = driven.last<gang::GiveUp>(m);
    CHECK(order.incarnation == 1);
    CHECK(order.member == 3);
  }
  CHECK(driven.orders(3).empty());
  // Rank 2 had the sum; the others get its state.
  for (const int m : {0, 1}) {
    driven.controller.failed(m,
                             {.round = round,
                              .incarnation = 1,
                              .updates = updates - 1,
                              .what = "given up"},
                             driven.now);
  }
  CHECK(driven.orders(0).empty());
  driven.ready(2, round, updates);
  const auto order = driven.last<gang::Regroup>(0);
  CHECK(order.members == std::vector<int>{0, 1, 2});
  CHECK(order.updates == updates);
  CHECK(order.source == 2);
  CHECK(order.targets == std::vector<int>{0, 1});
  CHECK(
      driven.event(Kind::late).starts_with("the others go on without rank 3"));
}

// Else each would give the other up when it goes on.
TEST_CASE("ranks that stand still together give none up when they are back") {
  DrivenGang driven(spec(ParallelMode::data, 2));
  driven.all_begin(
      gang::Begin{.end = 4800, .epoch_samples = 4800, .batch_size = 48});
  int64_t round = driven.last<gang::Regroup>(0).work.round;
  int64_t updates = 0;
  for (; updates < 12; ++updates, ++round) {
    driven.pass(milliseconds(500), {0, 1});
    for (const int m : {0, 1}) driven.ready(m, round, updates);
  }
  for (const int m : {0, 1}) driven.orders(m);
  driven.pass(seconds(8), {});
  for (const int m : {0, 1}) CHECK(driven.orders(m).empty());
  // One is back, the other is not: that one it may wait for.
  driven.pass(milliseconds(300), {0});
  CHECK(driven.last<gang::GiveUp>(0).member == 1);
  CHECK(driven.orders(1).empty());
}

TEST_CASE("one that comes back before its spike costs a round is waited for") {
  DrivenGang driven(spec(ParallelMode::data, 4));
  train_some(driven);
  for (int i = 0; i < 3; ++i) {
    driven.pass(milliseconds(1000), {0, 1, 2});
    driven.pass(milliseconds(100), {0, 1, 2, 3});
  }
  driven.pass(milliseconds(1000), {0, 1, 2});
  for (const int m : {0, 1, 2}) CHECK(driven.orders(m).empty());
  // This one lasts longer.
  driven.pass(milliseconds(300), {0, 1, 2});
  CHECK(driven.last<gang::GiveUp>(0).member == 3);
}

// What is sent has to be readable: of two weights of 1e308 the sum is infinite.
TEST_CASE("a ready whose totals cannot be summed is none") {
  DrivenGang driven(spec(ParallelMode::data, 2));
  driven.all_begin(
      gang::Begin{.end = 100, .epoch_samples = 100, .batch_size = 10});
  const int64_t round = driven.last<gang::Regroup>(0).work.round;
  driven.orders(1);
  gang::Ready ready{.round = round};
  ready.totals = {.loss = 1, .weight = 1e308, .correct = 1, .samples = 5};
  for (const int m : {0, 1}) driven.controller.ready(m, ready, driven.now);
  ready.totals = {.loss = 1, .weight = 5, .correct = 1, .samples = 1LL << 55};
  for (const int m : {0, 1}) driven.controller.ready(m, ready, driven.now);
  CHECK(driven.orders(0).empty());
  ready.totals.samples = 5;
  for (const int m : {0, 1}) driven.controller.ready(m, ready, driven.now);
  CHECK(driven.last<gang::Go>(0).totals.weight == 10);
}

// Where ranks share cores, the others have those of a rank that stands still.
TEST_CASE("shares do not follow what ranks do while another stands still") {
  DrivenGang driven(spec(ParallelMode::data, 4));
  driven.all_begin(
      gang::Begin{.end = 4800, .epoch_samples = 4800, .batch_size = 48});
  int64_t round = driven.last<gang::Regroup>(0).work.round;
  int64_t updates = 0;
  // It computed the round before at so many samples a second.
  const auto ready = [&](int member, double speed) {
    gang::Ready message{.round = round, .updates = updates};
    message.times.samples = 12;
    message.times.backward = 12 / speed;
    driven.controller.ready(member, message, driven.now);
  };
  for (; updates < 12; ++updates, ++round) {
    driven.pass(milliseconds(500), {0, 1, 2, 3});
    for (const int m : {0, 1, 2, 3}) ready(m, 24);
  }
  for (int without = 0; without < 3; ++without, ++updates, ++round) {
    driven.pass(milliseconds(500), {0, 1, 2});
    for (const int m : {0, 1, 2}) ready(m, without < 2 ? 24 : 48);
    driven.pass(milliseconds(100), {0, 1, 2});
  }
  driven.ready(3, round - 3, updates - 3);
  for (const int m : {0, 1, 2}) ready(m, 48);
  CHECK(samples_of(driven.last<gang::CatchUp>(3).work.spans) == 12);
}

TEST_CASE("a slow rank that is heard finishes what it computes") {
  DrivenGang driven(spec(ParallelMode::data, 4));
  const auto [round, updates] = train_some(driven);
  driven.pass(milliseconds(500), {0, 1, 2, 3});
  for (const int m : {0, 1, 2}) driven.ready(m, round, updates);
  driven.pass(milliseconds(100), {0, 1, 2, 3});
  CHECK(driven.orders(0).empty());
  driven.pass(milliseconds(200), {0, 1, 2, 3});
  CHECK(driven.last<gang::Go>(0).participants == std::vector<int>{0, 1, 2});
  CHECK(driven.orders(3).empty());
}

// It has its deadline and the time that it stood still.
TEST_CASE("a rank whose spike is over is given time to finish") {
  DrivenGang driven(spec(ParallelMode::data, 4));
  const auto [round, updates] = train_some(driven);
  driven.pass(milliseconds(300), {0, 1, 2});
  driven.pass(milliseconds(200), {0, 1, 2, 3});
  for (const int m : {0, 1, 2}) driven.ready(m, round, updates);
  driven.pass(milliseconds(400), {0, 1, 2, 3});
  CHECK(driven.orders(0).empty());
  driven.ready(3, round, updates);
  CHECK(driven.last<gang::Go>(0).participants == std::vector<int>{0, 1, 2, 3});
}

TEST_CASE("a first gradient commits no rank where spikes are frequent") {
  DrivenGang driven(spec(ParallelMode::data, 4));
  const auto [round, updates] = train_some(driven);
  driven.pass(milliseconds(100), {0, 1, 2, 3});
  for (const int m : {0, 1, 2}) driven.ready(m, round, updates, false);
  driven.pass(milliseconds(300), {0, 1, 2});  // rank 3 stands still
  driven.ready(3, round, updates, false);
  CHECK(driven.last<gang::Go>(0).round == round);
  // Half a round later the spike was .3 of the last .8 s.
  driven.pass(milliseconds(500), {0, 1, 2, 3});
  for (const int m : {0, 1, 2, 3})
    driven.ready(m, round + 1, updates + 1, false);
  CHECK(driven.orders(0).empty());
  for (const int m : {0, 1, 2, 3}) driven.ready(m, round + 1, updates + 1);
  CHECK(driven.last<gang::Go>(0).round == round + 1);
  // It was the only one for a while.
  driven.pass(seconds(10), {0, 1, 2, 3});
  for (const int m : {0, 1, 2, 3})
    driven.ready(m, round + 2, updates + 2, false);
  CHECK(driven.last<gang::Go>(0).round == round + 2);
}

// Its source would wait for it, and all the others for the source.
TEST_CASE("a late member gets state when it has nothing left to compute") {
  DrivenGang driven(spec(ParallelMode::data, 3));
  driven.all_begin(
      gang::Begin{.end = 960, .epoch_samples = 960, .batch_size = 24});
  int64_t round = driven.last<gang::Regroup>(0).work.round;
  int64_t updates = 0;
  for (; updates < 12; ++updates, ++round) {
    driven.now += milliseconds(10);
    for (const int m : {0, 1, 2}) driven.ready(m, round, updates);
  }
  const auto others_go_on = [&] {
    for (const int m : {0, 1}) driven.ready(m, round, updates);
    driven.pass(seconds(1), {0, 1, 2});
    ++round, ++updates;
    return driven.last<gang::Go>(0);
  };
  const int64_t missed = round;
  CHECK(others_go_on().participants == std::vector<int>{0, 1});
  driven.orders(2);
  driven.ready(2, missed, updates - 1, false);
  CHECK(others_go_on().targets.empty());
  CHECK(driven.orders(2).empty());
  driven.ready(2, missed, updates - 2, true);
  CHECK(others_go_on().targets == std::vector<int>{2});
  CHECK(driven.last<gang::CatchUp>(2).source >= 0);
}

TEST_CASE("a hang names the missing members, their phase and what they do") {
  ParallelSpec parallel = spec(ParallelMode::data, 2);
  parallel.stragglers = StragglerPolicy::off;
  DrivenGang driven(parallel);
  driven.all_begin(
      gang::Begin{.end = 64, .epoch_samples = 64, .batch_size = 8});
  const auto order = driven.last<gang::Regroup>(0);
  driven.ready(0, order.work.round);
  driven.controller.phase(1, "backward", milliseconds(0), driven.now);
  driven.pass(seconds(29), {0, 1});
  CHECK(driven.event(Kind::hanging) == "");
  driven.pass(seconds(40), {0, 1});
  const std::string text = driven.event(Kind::hanging);
  CHECK(text.find("missing: rank 1 on gpu1 (in 'backward' for 30.") !=
        std::string::npos);
  CHECK(std::count_if(driven.events.begin(), driven.events.end(),
                      [](auto& e) { return e.kind == Kind::hanging; }) == 1);
}

TEST_CASE("messages that come twice or too late change nothing") {
  DrivenGang driven(spec(ParallelMode::data, 2));
  driven.all_begin(
      gang::Begin{.end = 64, .epoch_samples = 64, .batch_size = 8});
  const int64_t round = driven.last<gang::Regroup>(0).work.round;
  driven.ready(0, round);
  driven.ready(0, round);
  CHECK(driven.orders(0).empty());
  driven.ready(1, round);
  CHECK(driven.last<gang::Go>(0).round == round);
  driven.ready(0, round, 1);
  driven.ready(1, round - 1, 1);
  driven.controller.failed(
      0, {.round = round, .incarnation = 0, .updates = 0, .what = "old"},
      driven.now);
  driven.pass(seconds(5), {0, 1});
  CHECK(driven.orders(0).empty());
  driven.ready(0, round + 1, 1);
  driven.ready(1, round + 1, 1);
  CHECK(driven.last<gang::Go>(1).round == round + 1);
}

TEST_CASE("after a failure the state with most updates is handed on") {
  DrivenGang driven(spec(ParallelMode::data, 3));
  driven.all_begin(
      gang::Begin{.end = 64, .epoch_samples = 64, .batch_size = 8});
  const int64_t round = driven.last<gang::Regroup>(0).work.round;
  for (int m = 0; m < 3; ++m) driven.ready(m, round);
  // Rank 1 has applied the round, rank 0 has not, rank 2 is dead.
  driven.controller.failed(
      0, {.round = round, .incarnation = 1, .updates = 0, .what = "peer"},
      driven.now);
  driven.orders(0);
  driven.ready(1, round + 1, 1);
  CHECK(driven.orders(0).empty());  // rank 2 may have applied it or not
  driven.controller.lost(2, "killed", driven.now);
  const auto order = driven.last<gang::Regroup>(0);
  CHECK(order.incarnation == 2);
  CHECK(order.members == std::vector<int>{0, 1});
  CHECK(order.updates == 1);
  CHECK(order.source == 1);
  CHECK(order.targets == std::vector<int>{0});
  CHECK(order.work.position == 8);
}

TEST_CASE(
    "a round that none of the remaining members has applied is trained again") {
  DrivenGang driven(spec(ParallelMode::data, 3));
  driven.all_begin(
      gang::Begin{.end = 64, .epoch_samples = 64, .batch_size = 8});
  const int64_t round = driven.last<gang::Regroup>(0).work.round;
  for (int m = 0; m < 3; ++m) driven.ready(m, round);
  driven.controller.lost(2, "killed", driven.now);
  for (const int m : {0, 1}) {
    driven.controller.failed(
        m, {.round = round, .incarnation = 1, .updates = 0, .what = "peer"},
        driven.now);
  }
  const auto order = driven.last<gang::Regroup>(1);
  CHECK(order.updates == 0);
  CHECK(order.targets.empty());
  CHECK(order.work.position == 0);
  CHECK(order.work.number == 0);
}

TEST_CASE("a pipeline that loses a stage is closed and names the lost member") {
  DrivenGang driven(spec(ParallelMode::model, 3));
  driven.all_begin(own_step());
  driven.orders(0);
  driven.controller.phase(1, "forward", milliseconds(0), driven.now);
  driven.pass(seconds(20), {0, 2});
  const std::string why = driven.last<gang::Closed>(0).why;
  CHECK(why.find("rank 1 on gpu1 (in 'forward' for 5.") != std::string::npos);
  CHECK(why.find("silent for longer than 5.0 s") != std::string::npos);
}

TEST_CASE("the server's own pauses are not held against members") {
  DrivenGang driven(spec(ParallelMode::data, 2));
  driven.all_begin(
      gang::Begin{.end = 64, .epoch_samples = 64, .batch_size = 8});
  ManualClock machine;
  machine.advance(driven.now - machine.now());
  TurnClock turns(milliseconds(500), machine);
  machine.advance(seconds(60));
  turns.turn();
  driven.controller.tick(turns.now());
  CHECK(driven.event(Kind::lost) == "");
  CHECK(driven.event(Kind::hanging) == "");
}

TEST_CASE("a member that leaves a step lets the others finish it") {
  DrivenGang driven(spec(ParallelMode::data, 2));
  driven.all_begin(gang::Begin{.end = 8, .epoch_samples = 8, .batch_size = 8});
  const int64_t round = driven.last<gang::Regroup>(0).work.round;
  driven.controller.left_step(1, driven.now);
  driven.ready(0, round);
  // No other is left: rank 0 trains the whole batch.
  const auto again = driven.last<gang::Go>(0);
  CHECK(again.participants == std::vector<int>{0});
  driven.controller.left_step(0, driven.now);
  // All begin again, as after a pause.
  for (const int m : {0, 1}) {
    driven.controller.begin(
        m, gang::Begin{.end = 8, .epoch_samples = 8, .batch_size = 8},
        driven.now);
  }
  CHECK(driven.last<gang::Regroup>(1).members == std::vector<int>{0, 1});
}

TEST_CASE("groups last from step to step until a member leaves them") {
  DrivenGang driven(spec(ParallelMode::data, 2));
  gang::Begin begin{.end = 8, .epoch_samples = 8, .batch_size = 8};
  driven.all_begin(begin);
  const auto train = [&] {  // a step of one batch; its incarnation
    const auto order = driven.last<gang::Regroup>(0);
    CHECK(driven.last<gang::Regroup>(1).incarnation == order.incarnation);
    for (int64_t i = 0; i < 2; ++i) {
      for (const int m : {0, 1}) {
        driven.ready(m, order.work.round + i, begin.updates + i);
      }
    }
    CHECK(driven.last<gang::Go>(0).last);
    CHECK(driven.last<gang::Go>(1).last);
    ++begin.step;
    ++begin.updates;
    begin.position = std::exchange(begin.end, begin.end + 8);
    return order.incarnation;
  };
  const auto begin_all = [&] {
    for (const int m : {1, 0}) driven.controller.begin(m, begin, driven.now);
  };
  const int first = train();
  begin_all();
  CHECK(train() == first);
  begin_all();
  for (const int m : {0, 1}) driven.controller.left_step(m, driven.now);
  driven.orders(0);
  driven.orders(1);
  begin_all();
  const int second = train();
  CHECK(second > first);
  // A process that has none of them.
  driven.controller.lost(1, "killed", driven.now);
  driven.controller.joined(1, driven.now);
  begin_all();
  CHECK(train() > second);
}

TEST_CASE("a member left over from an old step cannot begin a new one alone") {
  DrivenGang driven(spec(ParallelMode::data, 2));
  gang::Begin begin{.end = 8, .epoch_samples = 8, .batch_size = 8};
  driven.all_begin(begin);
  const int64_t round = driven.last<gang::Regroup>(0).work.round;
  driven.ready(0, round);
  driven.ready(1, round);
  driven.controller.lost(1, "silent", driven.now);
  driven.ready(0, round + 1, 1);
  REQUIRE(driven.last<gang::Go>(0).last);
  driven.controller.joined(1, driven.now);
  driven.controller.lost(0, "killed", driven.now);
  begin.step = 2;
  begin.end = 16;
  driven.controller.begin(1, begin, driven.now);  // with no update
  const std::string why = driven.last<gang::Closed>(1).why;
  CHECK(why.find("the members with the newest state are gone") == 0);
}

TEST_CASE("the members that are left when others are lost get their time") {
  DrivenGang driven(spec(ParallelMode::data, 4));
  gang::Begin begin{.end = 64, .epoch_samples = 64, .batch_size = 64};
  begin.evaluation_batches = 40;
  driven.all_begin(begin);
  int64_t round = driven.last<gang::Regroup>(0).work.round;
  for (int m = 0; m < 4; ++m) driven.ready(m, round, 0);
  round = driven.last<gang::Go>(0).next.round;
  driven.pass(milliseconds(100), {0, 1, 2, 3});
  driven.ready(0, round, 1);
  for (const int m : {2, 3}) driven.controller.lost(m, "killed", driven.now);
  driven.pass(milliseconds(500), {0, 1});
  CHECK(driven.event(Kind::late) == "");
  driven.pass(seconds(10), {0, 1});
  CHECK(driven.event(Kind::late) != "");
}

TEST_CASE("a gang whose trained workers are all gone is closed") {
  DrivenGang driven(two_workers(1));
  driven.all_begin(judged_step());
  const int64_t round = driven.last<gang::Regroup>(1).work.round;
  for (const int m : {0, 1, 2}) driven.ready(m, round, 10);
  driven.controller.lost(0, "killed", driven.now);
  driven.controller.joined(0, driven.now);
  driven.controller.begin(0, judged_step(), driven.now);
  CHECK_FALSE(driven.controller.closed());
  driven.controller.lost(1, "killed", driven.now);
  CHECK(driven.controller.closed());
  CHECK(driven.event(Kind::closed) ==
        "no member is left that has trained step 1");
}

}  // namespace dtune
