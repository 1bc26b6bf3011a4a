// A gang's controller where some of its members are parameter servers.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "driven_gang.h"
#include <doctest/doctest.h>

namespace dtune {

TEST_CASE("a ps worker that stops at the end of a step comes to the next") {
  DrivenGang driven(two_workers(1));
  driven.all_begin(judged_step());
  int64_t round = driven.last<gang::Regroup>(1).work.round;
  for (const int m : {1, 2}) driven.ready(m, round, 10);
  driven.pass(seconds(3), {1, 2});
  gang::Go go = driven.last<gang::Go>(1);
  CHECK(go.participants == std::vector<int>{1, 2});
  // It has not trained what is judged now, and cannot lead.
  driven.controller.heard(0, driven.now);
  driven.ready(0, round, 0);
  while (!go.last) {
    round = go.next.round;
    for (const int m : {1, 2}) driven.ready(m, round, 10);
    go = driven.last<gang::Go>(1);
    CHECK(go.participants == std::vector<int>{1, 2});
  }
  CHECK(driven.last<gang::Go>(0).last);
  gang::Begin next = judged_step();
  next.step = 2;
  for (const int m : {0, 1, 2}) driven.controller.begin(m, next, driven.now);
  CHECK(driven.last<gang::Regroup>(0).members == std::vector<int>{0, 1, 2});
}

TEST_CASE("a stage and a parameter server that stop are replaced soon") {
  for (const auto& parallel : {spec(ParallelMode::model, 3), two_workers(1)}) {
    DrivenGang driven(parallel);
    driven.all_begin(own_step());
    driven.pass(seconds(4), {0, 1});
    CHECK_FALSE(driven.controller.closed());
    driven.pass(seconds(2), {0, 1});
    CHECK(driven.event(Kind::closed).find("cannot go on without rank 2") !=
          std::string::npos);
  }
}

TEST_CASE("a parameter server's gang goes on without a worker") {
  ParallelSpec parallel = spec(ParallelMode::data, 2);
  parallel.sync = SyncKind::ps;
  DrivenGang driven(parallel);
  REQUIRE(driven.controller.members() == 3);
  driven.all_begin(own_step());
  const auto first = driven.last<gang::Regroup>(0);
  CHECK(first.work.spans.empty());
  CHECK(first.work.batch_samples == 100);
  driven.ready(2, first.work.round, 5);
  driven.controller.lost(1, "killed", driven.now);
  driven.controller.joined(1, driven.now);
  driven.orders(0);
  driven.controller.begin(1, own_step(), driven.now);
  const auto again = driven.last<gang::Regroup>(0);
  CHECK(again.members == std::vector<int>{0, 1, 2});
  CHECK(again.work.round == first.work.round);
  CHECK(again.incarnation > first.incarnation);
  driven.ready(0, first.work.round, 10);
  driven.ready(1, first.work.round, 4);
  CHECK(driven.last<gang::Go>(2).round == first.work.round);
}

TEST_CASE("a gang that loses a parameter server is closed") {
  ParallelSpec parallel = spec(ParallelMode::data, 2);
  parallel.sync = SyncKind::ps;
  DrivenGang driven(parallel);
  driven.all_begin(own_step());
  driven.orders(0);
  driven.controller.lost(2, "signal 9 (Killed)", driven.now);
  const std::string why = driven.last<gang::Closed>(0).why;
  CHECK(why.find("rank 2 on gpu2") != std::string::npos);
  CHECK(why.find("signal 9 (Killed)") != std::string::npos);
  CHECK(driven.event(Kind::closed) == why);
}

// Servers have nothing to judge and are ready at once.
TEST_CASE("parameter servers alone do not end an evaluation") {
  DrivenGang driven(two_workers(2));
  driven.all_begin(judged_step());
  const int64_t first = driven.last<gang::Regroup>(0).work.round;
  for (int m = 0; m < 4; ++m) driven.ready(m, first, 10);
  const int64_t round = driven.last<gang::Go>(0).next.round;
  for (const int m : {2, 3}) driven.ready(m, round, 10);
  driven.pass(seconds(20), {0, 1, 2, 3});
  CHECK(driven.orders(2).size() == 2);  // regroup, go
  driven.controller.lost(1, "killed", driven.now);
  driven.pass(seconds(20), {0, 2, 3});
  CHECK(driven.event(Kind::late) == "");
  driven.ready(0, round, 10);
  CHECK(driven.last<gang::Go>(0).participants == std::vector<int>{0, 2, 3});
}

TEST_CASE("a ps worker that comes back after the training waits for a step") {
  DrivenGang driven(two_workers(1));
  driven.all_begin(judged_step());
  int64_t round = driven.last<gang::Regroup>(1).work.round;
  for (const int m : {0, 1, 2}) driven.ready(m, round, 10);
  round = driven.last<gang::Go>(1).next.round;
  driven.ready(2, round, 10);
  driven.controller.lost(0, "killed", driven.now);
  driven.orders(0);
  // Its successor knows the weights from before the step.
  driven.controller.joined(0, driven.now);
  driven.controller.begin(0, judged_step(), driven.now);
  while (true) {
    driven.ready(1, round, 10);
    driven.ready(2, round, 10);
    const auto go = driven.last<gang::Go>(1);
    CHECK_FALSE(go.participants.front() == 0);
    if (go.last) break;
    round = go.next.round;
  }
  CHECK(driven.last<gang::Go>(0).last);
  SUBCASE("and is in at the next") {
    gang::Begin next = judged_step();
    next.step = 2;
    for (const int m : {0, 1, 2}) driven.controller.begin(m, next, driven.now);
    CHECK(driven.last<gang::Regroup>(0).members == std::vector<int>{0, 1, 2});
  }
}

}  // namespace dtune
