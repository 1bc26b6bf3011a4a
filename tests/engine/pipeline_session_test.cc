// Pipelines from outside: what a study gets when a trial's layers lie on
// several members.
#include <algorithm>

#include "gang_fixture.h"
#include <doctest/doctest.h>

using namespace dtune;

namespace {

Recipe stages_of(int stages, Recipe recipe = small_recipe()) {
  recipe.parallel.mode = ParallelMode::model;
  recipe.parallel.ranks = stages;
  return recipe;
}

Recipe pipelines_of(int data, int model, Recipe recipe = small_recipe()) {
  recipe.parallel.mode = ParallelMode::hybrid;
  recipe.parallel.ranks = data * model;
  recipe.parallel.data = data;
  recipe.parallel.model = model;
  return recipe;
}

double close_to(double value) { return 1e-3 * std::max(1.0, std::abs(value)); }

bool all_have_left(const Gang& gang) {
  const GangStatus status = gang.server().status("paused");
  return std::all_of(
      status.members.begin(), status.members.end(),
      [](const auto& m) { return m.phase == "has left the step"; });
}

}  // namespace

TEST_CASE("stages and pipelines side by side train what one process does") {
  Workshop shop;
  Recipe recipe = small_recipe();
  recipe.data.balance = true;
  recipe.train.clip_norm = 1;
  recipe.train.l2 = 1e-3;
  recipe.train.ema = 0.9;
  recipe.train.epochs = 2;
  TrialAssignment assignment = shop.assignment(recipe);
  assignment.kind = TrialKind::final;
  assignment.horizon = 2;
  const Alone alone = train_alone(shop, assignment, 2);
  const Recipe recipes[] = {stages_of(2, recipe), stages_of(3, recipe),
                            pipelines_of(2, 2, recipe)};
  for (const Recipe& parallel : recipes) {
    const std::string name = std::string(to_string(parallel.parallel.mode)) +
                             std::to_string(parallel.parallel.ranks);
    CAPTURE(name);
    assignment.recipe = parallel;
    Gang gang(parallel, name);
    const auto ends = run_gang(shop, gang, assignment, 2);
    check_no_failure(ends);
    CHECK(relative_error(numbers_in(assignment.checkpoint), alone.numbers) <
          1e-4);
    for (const MemberEnd& end : ends) {
      REQUIRE(end.reports.size() == 2);
      CHECK(end.reports[1].step == 2);
      CHECK(end.reports[1].metrics == ends[0].reports[1].metrics);
      for (const auto& [metric, value] : alone.report.metrics) {
        CAPTURE(metric);
        CHECK(std::abs(end.reports[1].metrics.at(metric) - value) <
              close_to(value));
      }
      CHECK(end.final_metrics == ends[0].final_metrics);
    }
    CHECK(ends[0].final_metrics.at("test_loss") ==
          doctest::Approx(alone.final_metrics.at("test_loss")).epsilon(1e-3));
  }
}

TEST_CASE("a trial goes on from a pipeline in any other way of training") {
  Workshop shop;
  TrialAssignment assignment = shop.assignment();
  const Alone through = train_alone(shop, assignment, 4);
  const Recipe recipes[] = {stages_of(2), small_recipe(), stages_of(3),
                            pipelines_of(2, 2)};
  for (int i = 0; i < 4; ++i) {
    assignment.recipe = recipes[i];
    assignment.resume_step = i;
    assignment.attempt = i + 1;
    if (recipes[i].parallel.mode == ParallelMode::none) {
      Workshop::run(*shop.start(assignment), 1);
      continue;
    }
    Gang gang(recipes[i], "resume" + std::to_string(i));
    const auto ends = run_gang(shop, gang, assignment, 1);
    check_no_failure(ends);
    REQUIRE(ends[0].reports.size() == 1);
    CHECK(ends[0].reports[0].step == i + 1);
  }
  CHECK(relative_error(numbers_in(assignment.checkpoint), through.numbers) <
        1e-4);
}

TEST_CASE("a network without enough layers is refused on every member") {
  Workshop shop;
  Recipe recipe = stages_of(4);
  LayerSpec linear;
  linear.kind = LayerKind::linear;
  linear.channels = 4;
  recipe.model.layers = {linear};
  Gang gang(recipe, "shallow");
  for (const MemberEnd& end :
       run_gang(shop, gang, shop.assignment(recipe), 1)) {
    CAPTURE(end.text);
    CHECK(end.text.find("parallel: 4 stages are more than the model's") !=
          std::string::npos);
  }
}

TEST_CASE("a loss that diverges fails all stages alike") {
  Workshop shop;
  Recipe recipe = stages_of(2);
  recipe.train.lr = 1e6;
  Gang gang(recipe, "diverges");
  const auto ends = run_gang(shop, gang, shop.assignment(recipe), 1);
  for (const MemberEnd& end : ends) {
    REQUIRE(end.failure.has_value());
    CHECK(*end.failure == Reason::diverged);
    CHECK(end.text == ends[0].text);
  }
}

TEST_CASE("a stage that leaves ends the step of the others") {
  Workshop shop;
  Recipe recipe = stages_of(2);
  recipe.train.epochs = 400;
  Gang gang(recipe, "gone");
  TrialAssignment assignment = shop.assignment(recipe);
  assignment.horizon = 2;  // the second step has 399 epochs
  const auto ends = with_sessions(
      shop, gang, assignment, [&](int member, auto& session, MemberEnd&) {
        std::atomic<bool> leave = false;
        session->run_step(leave);
        std::thread leaving([&] {
          while (member == 1 && session->progress().fraction >= 1) {
            std::this_thread::yield();
          }
          leave = member == 1;
        });
        try {
          session->run_step(leave);
        } catch (const StepStopped&) {
        } catch (...) {
          leaving.join();
          throw;
        }
        leaving.join();
      });
  CAPTURE(ends[0].text);
  REQUIRE(ends[0].failure.has_value());
  CHECK(*ends[0].failure == Reason::lease_lapsed);
  CHECK(ends[0].text.find("pipeline") != std::string::npos);
}

TEST_CASE("a step of a pipeline that was stopped is trained again") {
  Workshop shop;
  TrialAssignment assignment = shop.assignment();
  const Alone through = train_alone(shop, assignment, 2);
  assignment.recipe = stages_of(2);
  Gang gang(assignment.recipe, "paused");
  std::atomic<bool> stop = false;
  std::atomic<int> stopped = 0;
  std::atomic<int> arrived = 0;
  const auto ends = with_sessions(
      shop, gang, assignment, [&](int, auto& session, MemberEnd& end) {
        end.reports.push_back(session->run_step(stop));
        if (++arrived == 2) stop = true;
        while (!stop) std::this_thread::yield();
        try {
          session->run_step(stop);
        } catch (const StepStopped&) {
          ++stopped;
        }
        // A stage that begins before the server knows that the other one has
        // left gets the message that it is alone.
        while (!all_have_left(gang)) std::this_thread::yield();
        stop = false;
        end.reports.push_back(session->run_step(stop));
      });
  check_no_failure(ends);
  CHECK(stopped == 2);
  CHECK(relative_error(numbers_in(assignment.checkpoint), through.numbers) <
        1e-4);
}
