// Trials with a parameter server, from outside: real sessions of workers and
// servers in one gang.
#include "gang_fixture.h"
#include <doctest/doctest.h>

using namespace dtune;

namespace {

Recipe server_recipe(Consistency consistency, int workers, int servers) {
  Recipe recipe = parallel_recipe(workers);
  recipe.parallel.sync = SyncKind::ps;
  recipe.parallel.ps.consistency = consistency;
  recipe.parallel.ps.servers = servers;
  return recipe;
}

// Without ReLU and max pooling: at their kinks rounding may choose another
// side, and then more than rounding differs.
std::vector<LayerSpec> smooth_layers() {
  return {{.kind = LayerKind::conv, .channels = 4, .kernel = 3},
          {.kind = LayerKind::tanh},
          {.kind = LayerKind::avg_pool, .kernel = 2, .stride = 2},
          {.kind = LayerKind::conv, .channels = 8, .kernel = 3},
          {.kind = LayerKind::gelu},
          {.kind = LayerKind::dropout},
          {.kind = LayerKind::linear, .channels = 16},
          {.kind = LayerKind::tanh}};
}

std::string fmt_name(const std::string& name, int a, int b) {
  return name + std::to_string(a) + "." + std::to_string(b);
}

}  // namespace

TEST_CASE("a synchronous parameter server trains what one process does") {
  Workshop shop;
  for (const auto& [workers, servers] : {std::pair{2, 1}, std::pair{3, 2}}) {
    Recipe recipe = server_recipe(Consistency::sync, workers, servers);
    recipe.data.balance = true;
    recipe.data.augment.shift = 1;
    recipe.model.layers = smooth_layers();
    recipe.train.l2 = 1e-3;
    recipe.train.clip_norm = 1;
    recipe.train.epochs = 2;
    recipe.train.schedule.kind = ScheduleKind::cosine;
    TrialAssignment assignment = shop.assignment(recipe);
    assignment.kind = TrialKind::final;
    assignment.horizon = 2;
    const Alone alone = train_alone(shop, assignment, 2);
    Gang gang(recipe, fmt_name("sync", workers, servers));
    const auto ends = run_gang(shop, gang, assignment, 2);
    check_no_failure(ends);
    // Weights and momentum, to rounding.
    CHECK(relative_error(numbers_in(assignment.checkpoint), alone.numbers) <
          1e-5);
    for (const MemberEnd& end : ends) {
      REQUIRE(end.reports.size() == 2);
      CHECK(end.reports[1].metrics == ends[0].reports[1].metrics);
      CHECK(end.reports[1].metrics.contains("train_loss"));
      CHECK(end.final_metrics == ends[0].final_metrics);
    }
  }
}

TEST_CASE("a parameter server admits its gang's keys, near ones and far ones") {
  Workshop shop;
  const Recipe recipe = server_recipe(Consistency::sync, 2, 2);
  const TrialAssignment assignment = shop.assignment(recipe);
  RemoteKeys keys;
  for (int i = 0; i < 4; ++i) keys.members.push_back(generate_curve_keys());
  Gang gang(recipe, "keys", GangOptions().lease, &keys);
  const auto ends = run_gang(shop, gang, assignment, 2);
  check_no_failure(ends);
  for (const MemberEnd& end : ends) CHECK(end.reports.size() == 2);
}

TEST_CASE("ssp and async learn, and one process goes on from their end") {
  Workshop shop;
  for (const auto consistency : {Consistency::ssp, Consistency::async}) {
    Recipe recipe = server_recipe(consistency, 2, 2);
    recipe.model.arch = "resnet18";  // batch norm: buffers are averaged
    recipe.model.width = 4;
    recipe.train.optimizer = OptimizerKind::adam;
    recipe.train.lr = 0.003;
    TrialAssignment assignment = shop.assignment(recipe);
    Gang gang(recipe, consistency == Consistency::ssp ? "ssp" : "async");
    const auto ends = run_gang(shop, gang, assignment, 3);
    check_no_failure(ends);
    REQUIRE(ends[0].reports.size() == 3);
    CHECK(ends[0].reports[2].metrics.at("val_accuracy") > 0.6);
    CHECK(ends[2].reports[2].metrics == ends[0].reports[2].metrics);
    assignment.recipe.parallel = {};
    assignment.resume_step = 3;
    const auto session = shop.start(assignment);
    CHECK(session->steps_done() == 3);
    CHECK(Workshop::run(*session, 1).metrics.at("val_accuracy") > 0.6);
  }
}

TEST_CASE("a parameter server goes on from a checkpoint, also within a batch") {
  Workshop shop;
  Recipe recipe = server_recipe(Consistency::sync, 2, 2);
  recipe.train.step_samples = 20;  // some steps have no batch of their own
  recipe.train.epochs = 0.5;
  TrialAssignment assignment = shop.assignment(recipe);
  assignment.horizon = 10;
  const Alone alone = train_alone(shop, assignment, 6);
  for (const int part : {0, 1}) {
    assignment.resume_step = 3 * part;
    Gang gang(recipe, "part" + std::to_string(part));
    const auto ends = run_gang(shop, gang, assignment, 3);
    check_no_failure(ends);
    REQUIRE(ends[0].reports.size() == 3);
    CHECK(ends[0].reports.back().step == 3 * part + 3);
  }
  CHECK(relative_error(numbers_in(assignment.checkpoint), alone.numbers) <
        1e-4);
}

TEST_CASE("a loss that diverges fails workers and servers alike") {
  Workshop shop;
  Recipe recipe = server_recipe(Consistency::async, 2, 1);
  recipe.train.lr = 1e6;
  Gang gang(recipe, "diverges");
  const auto ends = run_gang(shop, gang, shop.assignment(recipe), 1);
  for (const MemberEnd& end : ends) {
    REQUIRE(end.failure.has_value());
    CAPTURE(end.text);
    CHECK(*end.failure == Reason::diverged);
  }
}

TEST_CASE("a parameter server's step that was stopped is trained again") {
  Workshop shop;
  const Recipe recipe = server_recipe(Consistency::sync, 2, 1);
  const TrialAssignment assignment = shop.assignment(recipe);
  const Alone alone = train_alone(shop, assignment, 2);
  Gang gang(recipe, "paused");
  check_no_failure(run_with_a_stop(shop, gang, assignment));
  CHECK(relative_error(numbers_in(assignment.checkpoint), alone.numbers) <
        1e-4);
}

TEST_CASE("the others go on when a worker leaves in the middle of a step") {
  Workshop shop;
  for (const auto consistency : {Consistency::sync, Consistency::ssp}) {
    const Recipe recipe = server_recipe(consistency, 3, 1);
    TrialAssignment assignment = shop.assignment(recipe);
    Gang gang(recipe, consistency == Consistency::sync ? "gone1" : "gone2");
    const auto ends = with_sessions(
        shop, gang, assignment, [&](int member, auto& session, MemberEnd& end) {
          std::atomic<bool> stop = false;
          std::atomic<bool> done = false;
          std::thread watcher([&] {
            while (member == 1 && !done && session->progress().fraction < 0.3) {
              std::this_thread::yield();
            }
            if (member == 1) stop = true;
          });
          try {
            for (int i = 0; i < 2; ++i) {
              end.reports.push_back(session->run_step(stop));
            }
          } catch (const StepStopped&) {
            end.text = "stopped";
          }
          done = true;
          watcher.join();
        });
    CHECK(ends[1].text == "stopped");
    for (const int member : {0, 2, 3}) {
      const MemberEnd& end = ends[static_cast<size_t>(member)];
      CAPTURE(end.text);
      CHECK_FALSE(end.failure.has_value());
      REQUIRE(end.reports.size() == 2);
      CHECK(end.reports[1].metrics == ends[0].reports[1].metrics);
      CHECK(end.reports[1].metrics.at("val_accuracy") > 0.4);
    }
  }
}

TEST_CASE("a server that goes ends the gang for its workers") {
  Workshop shop;
  const Recipe recipe = server_recipe(Consistency::async, 2, 1);
  TrialAssignment assignment = shop.assignment(recipe);
  Gang gang(recipe, "headless");
  const auto ends = with_sessions(
      shop, gang, assignment, [&](int member, auto& session, MemberEnd& end) {
        const std::atomic<bool> stop = false;
        end.reports.push_back(session->run_step(stop));
        if (member == 2) {
          session.reset();
          gang.server().member_lost("headless", 2, "killed by a test");
          return;
        }
        end.reports.push_back(session->run_step(stop));
      });
  for (const int member : {0, 1}) {
    const MemberEnd& end = ends[static_cast<size_t>(member)];
    CAPTURE(end.text);
    REQUIRE(end.failure.has_value());
    CHECK(*end.failure == Reason::lease_lapsed);
    CHECK(end.reports.size() == 1);
  }
}
