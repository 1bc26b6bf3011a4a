#include "dtune/parameter_server/ps_clock.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "ps_virtual.h"
#include <doctest/doctest.h>

#include "dtune/base/random.h"

using namespace dtune;

namespace {

using Floats = std::vector<float>;

PsPlan minded_plan(Consistency consistency) {
  PsPlan plan = virtual_plan(consistency, 2, 8000);
  plan.train.batch_size = 80;
  plan.parallel.stragglers = StragglerPolicy::automatic;
  plan.parallel.predictor = PredictorKind::last;
  return plan;
}

// Some rounds in which worker 1 takes three times as long for a sample.
void slow_second_worker(VirtualServers& servers) {
  for (int round = 0; round < 5; ++round) {
    for (const int id : {0, 1}) {
      servers.seconds[id] = 0.01 * static_cast<double>(servers.grant(id).size) *
                            (id == 0 ? 1 : 3);
      servers.push(id, {0});
    }
  }
}

}  // namespace

TEST_CASE("sync applies the weighted mean of a batch's gradients once") {
  const PsPlan plan = virtual_plan(Consistency::sync, 2);
  VirtualServers servers(plan, {1, 2}, 1);
  servers.join(0);
  CHECK(servers.idle(0));  // the other has not come
  servers.join(1);
  CHECK(servers.grant(0).size == 4);
  CHECK(servers.grant(1).first_sample == 4);
  CHECK(servers.grant(0).number == servers.grant(1).number);
  servers.push(1, {1, 0}, 3);
  CHECK(servers.weights() == Floats{1, 2});
  CHECK(servers.idle(1));
  servers.push(0, {0, 1}, 1);
  // Weights 3 and 1 of 4.
  CHECK(servers.weights()[0] == doctest::Approx(1 - 0.1 * 0.75));
  CHECK(servers.weights()[1] == doctest::Approx(2 - 0.1 * 0.25));
  CHECK(servers.workers[0].weights == servers.weights());
  CHECK(servers.grant(1).number == 1);
}

TEST_CASE("sync equals apply_update on the summed gradient on any servers") {
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adam}) {
    PsPlan plan = virtual_plan(Consistency::sync, 3, 32);
    plan.train.optimizer = kind;
    plan.train.momentum = 0.9;
    plan.train.l2 = 0.01;
    plan.train.clip_norm = 1;
    plan.train.schedule.kind = ScheduleKind::cosine;
    plan.epochs = 1;
    const Floats start(100, 0.5F);
    VirtualServers servers(plan, start, 3);
    servers.join_all();
    Floats w = start;
    Floats first(100), second(100);
    const std::vector<DecayRun> runs = {{0, 100, 0.01}};
    Rng rng(5);
    for (int batch = 0; batch < 4; ++batch) {
      Floats mean(100);
      for (int id = 0; id < 3; ++id) {
        Floats g(100);
        for (float& x : g) x = static_cast<float>(rng.normal());
        const auto share = static_cast<float>(servers.grant(id).size) / 8;
        for (size_t i = 0; i < g.size(); ++i) mean[i] += share * g[i];
        servers.push(id, g);
      }
      double squares = 0;
      for (const float x : mean) squares += double{x} * x;
      const double middle = (batch * 8 + 4) / 32.0;
      apply_update(
          plan.train,
          {.lr = 0.1 * 0.5 * (1 + std::cos(3.14159265358979 * middle)),
           .number = batch + 1,
           .gradient_scale = std::min(1.0, 1 / (std::sqrt(squares) + 1e-6))},
          runs,
          {w, mean, first,
           kind == OptimizerKind::sgd ? std::span<float>() : second});
    }
    const Floats got = servers.weights();
    for (size_t i = 0; i < w.size(); ++i) {
      CHECK(got[i] == doctest::Approx(w[i]).epsilon(1e-5));
    }
    CHECK(servers.clock.updates() == 4);
  }
}

TEST_CASE("async moves by share and factor, at once") {
  PsPlan plan = virtual_plan(Consistency::async, 2);
  plan.parallel.ps.staleness_lr = StalenessRule::inverse;
  VirtualServers servers(plan, {1}, 1);
  servers.join_all();
  servers.push(0, {1});  // 4 of 8 samples, fresh
  CHECK(servers.weights()[0] == doctest::Approx(1 - 0.1 * 0.5));
  CHECK(servers.workers[0].version == 1);
  servers.push(0, {1});
  servers.push(0, {1});
  CHECK(servers.weights()[0] == doctest::Approx(1 - 0.15));
  servers.push(1, {2});  // three updates late
  CHECK(servers.weights()[0] == doctest::Approx(0.85 - 0.1 * 0.5 * 2 / 3));
  const PsFigures figures = servers.clock.take_figures();
  CHECK(figures.applied == 4);
  CHECK(figures.max_staleness == 3);
  CHECK(figures.mean_staleness == doctest::Approx(0.75));
  CHECK(figures.mean_factor == doctest::Approx((3 + 1 / 3.0) / 4));
}

TEST_CASE("a round of n workers moves as far as one synchronous step") {
  PsPlan plan = virtual_plan(Consistency::async, 4);
  VirtualServers servers(plan, {1}, 1);
  servers.join_all();
  for (int id = 0; id < 4; ++id) servers.push(id, {1});
  CHECK(servers.weights()[0] == doctest::Approx(1 - 0.1));
}

TEST_CASE("momentum is of each worker's own gradients") {
  PsPlan plan = virtual_plan(Consistency::async, 2);
  plan.train.momentum = 0.9;
  VirtualServers servers(plan, {1}, 1);
  servers.join_all();
  const double first = 1 - 0.05 * (1 + 0.9);
  servers.push(0, {1});
  CHECK(servers.weights()[0] == doctest::Approx(first));
  servers.push(1, {2});  // the same as without the other's, twice as far
  CHECK(servers.weights()[0] == doctest::Approx(1 - 3 * (1 - first)));
  servers.push(0, {1});
  CHECK(servers.weights()[0] ==
        doctest::Approx(1 - 3 * (1 - first) - 0.05 * (1 + 0.9 * 1.9)));
  // What the next step begins with: the mean of 1.9 and 2.
  CHECK(servers.values(ps::Content::first)[0] == doctest::Approx(1.95));
}

TEST_CASE("one worker without staleness is Nesterov's momentum") {
  PsPlan plan = virtual_plan(Consistency::async, 1, 4);
  plan.train.momentum = 0.9;
  VirtualServers servers(plan, {1}, 1);
  servers.join_all();
  TrainSpec nesterov = plan.train;
  nesterov.nesterov = true;
  Floats w{1};
  Floats velocity{0};
  const std::vector<DecayRun> runs{{0, 1, 0}};
  for (int i = 1; !servers.idle(0); ++i) {
    const ps::Grant grant = servers.push(0, {0.5F});
    Floats gradient{0.5F};
    apply_update(nesterov, {.lr = grant.lr, .number = i}, runs,
                 {w, gradient, velocity, {}});
    CHECK(servers.weights()[0] == doctest::Approx(w[0]));
  }
}

TEST_CASE("moments are the server's, of all workers") {
  PsPlan plan = virtual_plan(Consistency::async, 2);
  plan.train.optimizer = OptimizerKind::adam;
  VirtualServers servers(plan, {1}, 1);
  servers.join_all();
  servers.push(0, {1});
  servers.push(1, {1});
  CHECK(servers.values(ps::Content::first)[0] ==
        doctest::Approx(1 - std::pow(plan.train.beta1, 2)));
}

TEST_CASE("a gradient that is too stale is dropped and its samples go on") {
  PsPlan plan = virtual_plan(Consistency::async, 2, 16);
  plan.parallel.ps.discard = 2;
  VirtualServers servers(plan, {1}, 1);
  servers.join_all();
  const ps::Grant stale = servers.grant(1);
  servers.push(0, {1});
  servers.push(0, {1});
  const Floats before = servers.weights();
  servers.push(1, {100});
  CHECK(servers.weights() == before);
  CHECK(servers.workers[1].version == 2);  // fresh weights
  // The next worker to ask gets its samples: the worker itself here.
  CHECK(servers.grant(1).first == stale.first);
  CHECK(servers.clock.take_figures().discarded == 1);
  CHECK(servers.clock.position() == 8);
}

// data.balance: as sync, where the batch's gradient is the mean by weight.
TEST_CASE("single gradients count by the weight of their samples") {
  for (const auto consistency : {Consistency::ssp, Consistency::async}) {
    VirtualServers servers(virtual_plan(consistency, 2), {1}, 1);
    servers.join_all();
    servers.push(0, {1}, 6);  // 4 samples of rare classes, a batch of 8
    CHECK(servers.weights()[0] == doctest::Approx(1 - 0.1 * 6 / 8));
    servers.push(1, {1}, 0.5);
    CHECK(servers.weights()[0] == doctest::Approx(1 - 0.1 * 6.5 / 8));
  }
}

TEST_CASE("under compensation a worker's own updates make it stale as well") {
  PsPlan plan = virtual_plan(Consistency::ssp, 2, 800);
  plan.parallel.ps.compensation = Compensation::constant;
  VirtualServers servers(plan, {1}, 1);
  servers.join_all();
  servers.push(0, {0}, 0, 0);
  servers.push(0, {0}, 0, 0);
  CHECK(servers.clock.take_figures().max_staleness == 1);
}

TEST_CASE("delay compensation knows the weights that a worker was sent") {
  for (const int servers_count : {1, 2}) {
    PsPlan plan = virtual_plan(Consistency::async, 2);
    plan.parallel.ps.compensation = Compensation::constant;
    plan.parallel.ps.lambda = 0.5;
    VirtualServers servers(plan, Floats(32, 1), servers_count);
    servers.join_all();
    servers.push(0, Floats(32, 2));  // moves to 1 - 0.05 * 2 = 0.9
    servers.push(1, Floats(32, 1));  // computed at 1
    const double g = 1 + 0.5 * 1 * (0.9 - 1);
    CHECK(servers.weights()[0] == doctest::Approx(0.9 - 0.05 * g));
    CHECK(servers.weights()[31] == doctest::Approx(0.9 - 0.05 * g));
  }
}

TEST_CASE("ssp blocks a worker that is more than the bound ahead") {
  PsPlan plan = virtual_plan(Consistency::ssp, 2, 800);
  plan.parallel.ps.bound = 2;
  VirtualServers servers(plan, {1}, 1);
  servers.join_all();
  CHECK(servers.workers[0].grants.size() == 2);  // one ahead
  int pushed = 0;
  while (!servers.idle(0)) {
    servers.push(0, {0});
    ++pushed;
  }
  // Iterations 0, 1, 2 may begin while the other's clock is 0.
  CHECK(pushed == 3);
  servers.push(1, {0});
  CHECK(!servers.idle(0));
  CHECK(servers.grant(0).clock == 3);
  CHECK(servers.workers[0].min_clock == 1);
}

TEST_CASE("an ssp worker that died holds no other back") {
  PsPlan plan = virtual_plan(Consistency::ssp, 3, 800);
  plan.parallel.ps.bound = 1;
  VirtualServers servers(plan, {1}, 1);
  servers.join_all();
  while (!servers.idle(0)) servers.push(0, {0});
  while (!servers.idle(1)) servers.push(1, {0});
  const ps::Grant lost = servers.grant(2);
  servers.kill(2);
  CHECK(!servers.idle(0));
  CHECK(!servers.idle(1));
  // Another worker has its samples.
  std::set<int64_t> first;
  for (const auto& [id, worker] : servers.workers) {
    for (const ps::Grant& grant : worker.grants) first.insert(grant.first);
  }
  CHECK(first.contains(lost.first));
  // Who joins now begins at the slowest's clock.
  servers.join(2, 2);
  CHECK(servers.grant(2).clock <= servers.grant(0).clock);
  CHECK(servers.grant(2).clock >= 1);
}

TEST_CASE("staleness does not count a worker's own updates") {
  PsPlan plan = virtual_plan(Consistency::ssp, 2, 800);
  VirtualServers servers(plan, {1}, 1);
  servers.join_all();
  servers.push(0, {0}, 0, 0);
  servers.push(0, {0}, 0, 0);  // with the cached weights of version 0
  CHECK(servers.clock.take_figures().max_staleness == 0);
  servers.push(1, {0}, 0, 0);
  CHECK(servers.clock.take_figures().max_staleness == 2);
}

TEST_CASE("the parts of a dead sync worker are computed by the others") {
  const PsPlan plan = virtual_plan(Consistency::sync, 2, 16);
  VirtualServers servers(plan, {1}, 1);
  servers.join_all();
  servers.push(0, {1});
  CHECK(servers.idle(0));
  servers.kill(1);
  REQUIRE(!servers.idle(0));
  CHECK(servers.grant(0).first_sample == 4);
  CHECK(servers.grant(0).number == 0);
  servers.push(0, {3});
  CHECK(servers.weights()[0] == doctest::Approx(1 - 0.1 * 2));
}

TEST_CASE(
    "the others compute what a late sync worker had, and its is dropped") {
  const PsPlan plan = virtual_plan(Consistency::sync, 2, 24);
  VirtualServers servers(plan, {1}, 1);
  servers.join_all();
  servers.push(0, {1});
  CHECK(servers.clock.owed() ==
        std::map<int, int64_t>{{1, servers.grant(1).ticket}});
  servers.leave_out(1);
  CHECK(servers.grant(0).first_sample == 4);
  servers.push(0, {3});
  CHECK(servers.weights()[0] == doctest::Approx(1 - 0.1 * 2));
  // The second batch is worker 0's alone.
  CHECK(servers.grant(0).size == 8);
  servers.push(1, {1000});
  CHECK(servers.weights()[0] == doctest::Approx(1 - 0.1 * 2));
  CHECK(servers.idle(1));
  servers.push(0, {0});
  // The third is both's.
  CHECK(servers.grant(0).size == 4);
  CHECK(servers.grant(1).size == 4);
  CHECK(servers.workers[1].version == 2);
  servers.push(0, {0});
  servers.push(1, {0});
  CHECK(servers.clock.take_figures().left_out == 1);
  CHECK(servers.workers[1].finishing);
}

TEST_CASE("a late ssp worker holds no other back") {
  PsPlan plan = virtual_plan(Consistency::ssp, 2, 800);
  plan.parallel.ps.bound = 2;
  VirtualServers servers(plan, {1}, 1);
  servers.join_all();
  while (!servers.idle(0)) servers.push(0, {0});
  const int64_t first = servers.grant(1).first;
  servers.leave_out(1);
  CHECK(servers.grant(0).first == first);
  for (int i = 0; i < 20; ++i) servers.push(0, {0});
  const Floats before = servers.weights();
  servers.push(1, {1000});
  CHECK(servers.weights() == before);
  servers.push(1, {1000});  // that it had ahead
  CHECK(servers.weights() == before);
  REQUIRE(!servers.idle(1));
  CHECK(servers.grant(1).clock >= 20);
  servers.push(1, {1});
  CHECK(servers.weights()[0] < before[0]);
}

TEST_CASE("a worker that is late for the end of a step is not waited for") {
  const PsPlan plan = virtual_plan(Consistency::sync, 2, 8);
  VirtualServers servers(plan, {1}, 1);
  servers.join_all();
  servers.push(0, {0});
  servers.push(1, {0});
  CHECK(servers.clock.owed() ==
        std::map<int, int64_t>{{0, PsClock::kBuffers}, {1, PsClock::kBuffers}});
  servers.clock.collected(0);
  CHECK(!servers.clock.done());
  servers.leave_out(1);
  CHECK(servers.clock.done());
  CHECK(servers.clock.active_members() == std::vector<int>{0});
}

TEST_CASE("what a late worker needed is what is known of its speed") {
  const PsPlan plan = minded_plan(Consistency::sync);
  VirtualServers servers(plan, {1}, 1);
  servers.join_all();
  for (int batch = 0; batch < 3; ++batch) {
    for (const int id : {0, 1}) {
      servers.seconds[id] = 0.01 * static_cast<double>(servers.grant(id).size);
      if (batch < 2 || id == 0) servers.push(id, {0});
    }
  }
  servers.leave_out(1);
  servers.seconds[1] = 0.03 * 40;
  servers.push(1, {0});
  servers.push(0, {0});
  CHECK(servers.grant(0).size == 60);
  CHECK(servers.grant(1).size == 20);
}

// It would not be, part by part of its own small share: a server keeps only so
// many gradients of a worker for a batch.
TEST_CASE("the rest of a dead sync worker is shared out anew") {
  VirtualServers servers(minded_plan(Consistency::sync), {1}, 1);
  servers.join_all();
  slow_second_worker(servers);
  REQUIRE(servers.grant(0).size == 60);
  servers.push(1, {0});
  servers.kill(0);
  CHECK(servers.grant(1).size == 60);
  CHECK(servers.grant(1).first_sample == 0);
}

TEST_CASE("shares follow the speeds under straggler mitigation") {
  for (const auto consistency : {Consistency::sync, Consistency::ssp}) {
    const PsPlan plan = minded_plan(consistency);
    VirtualServers servers(plan, {1}, 1);
    servers.join_all();
    CHECK(servers.grant(0).size == 40);
    slow_second_worker(servers);
    CHECK(servers.grant(0).size == 60);
    CHECK(servers.grant(1).size == 20);
  }
}

TEST_CASE("speeds last from step to step, for as long as their workers") {
  const PsPlan plan = minded_plan(Consistency::ssp);
  VirtualServers first(plan, {1}, 1);
  first.join_all();
  slow_second_worker(first);
  VirtualServers second(plan, {1}, 1, {}, first.clock.take_speeds());
  second.join_all();
  CHECK(second.grant(1).size == 20);
  second.kill(1);
  VirtualServers third(plan, {1}, 1, {}, second.clock.take_speeds());
  third.join_all();
  CHECK(third.grant(1).size == 40);
}

TEST_CASE("a loss that is not a number ends the step for all") {
  for (const auto consistency : {Consistency::sync, Consistency::async}) {
    VirtualServers servers(virtual_plan(consistency, 2), {1}, 1);
    servers.join_all();
    servers.loss = std::nan("");
    servers.push(0, {1});
    CHECK(servers.clock.diverged().find("training loss became nan") !=
          std::string::npos);
    CHECK(servers.idle(0));
  }
  VirtualServers servers(virtual_plan(Consistency::async, 2), {1}, 1);
  servers.join_all();
  servers.push(0, {std::numeric_limits<float>::infinity()});
  CHECK(servers.clock.diverged().find("gradient's norm") != std::string::npos);
}

TEST_CASE("what comes twice or under no ticket changes nothing") {
  VirtualServers servers(virtual_plan(Consistency::async, 2), {1}, 1);
  servers.join_all();
  const ps::Grant grant = servers.push(0, {1});
  const Floats weights = servers.weights();
  servers.clock.pushed(0, {.ticket = grant.ticket, .totals = {.samples = 4}});
  servers.clock.pushed(0, {.ticket = 999, .totals = {.samples = 4}});
  servers.clock.pushed(7, {.ticket = 1, .totals = {.samples = 4}});
  servers.clock.present(0, 1);
  servers.clock.gone(9);
  servers.clock.collected(0);
  CHECK(servers.clock.take_actions().empty());
  CHECK(servers.weights() == weights);
  CHECK(!servers.clock.done());
}

TEST_CASE("a step ends at a batch's end as with one process") {
  PsPlan plan = virtual_plan(Consistency::async, 2, 20);
  plan.position = 8;
  plan.end = 10;  // within the second batch, which has 8
  VirtualServers servers(plan, {1}, 1);
  servers.join_all();
  servers.push(0, {0});
  servers.push(1, {0});
  CHECK(servers.workers[0].finishing);
  CHECK(servers.clock.position() == 16);
  CHECK(!servers.clock.done());
  servers.clock.collected(0);
  servers.kill(1);
  CHECK(servers.clock.done());
}
