// Gangs from outside: what a study gets when a trial has several ranks.
#include "gang_fixture.h"
#include <doctest/doctest.h>

using namespace dtune;

namespace {

// A final training: members test and write their models at the end.
TrialAssignment final_assignment(const Workshop& shop, const Recipe& recipe) {
  TrialAssignment assignment = shop.assignment(recipe);
  assignment.kind = TrialKind::final;
  return assignment;
}

}  // namespace

TEST_CASE("one to four ranks train what one process does") {
  Workshop shop;
  Recipe recipe = small_recipe();
  recipe.data.balance = true;
  recipe.data.augment.shift = 1;
  recipe.train.l2 = 1e-3;
  recipe.train.clip_norm = 1;
  recipe.train.epochs = 3;
  recipe.train.schedule.kind = ScheduleKind::cosine;
  recipe.data.augment.mixup = 0.2;  // with samples that other ranks have
  recipe.train.ema = 0.9;
  TrialAssignment assignment = final_assignment(shop, recipe);
  assignment.horizon = 3;
  const Alone alone = train_alone(shop, assignment, 3);
  for (const int ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    assignment.recipe = parallel_recipe(ranks, recipe);
    assignment.recipe.parallel.overlap = ranks != 3;
    assignment.recipe.parallel.bucket_mb = 0.01;
    Gang gang(assignment.recipe, "equal" + std::to_string(ranks));
    const auto ends = run_gang(shop, gang, assignment, 3);
    check_no_failure(ends);
    // Rounding alone: some 40 updates with sums in another order.
    CHECK(relative_error(numbers_in(assignment.checkpoint), alone.numbers) <
          1e-4);
    const std::vector<float> first =
        numbers_in(shop.path("equal" + std::to_string(ranks) + ".model.0"));
    for (int member = 0; member < ranks; ++member) {
      CAPTURE(member);
      const MemberEnd& end = ends[static_cast<size_t>(member)];
      REQUIRE(end.reports.size() == 3);
      CHECK(end.reports[2].step == 3);
      CHECK(end.reports[2].metrics == ends[0].reports[2].metrics);
      CHECK(
          end.reports[2].metrics.at("train_loss") ==
          doctest::Approx(alone.report.metrics.at("train_loss")).epsilon(1e-3));
      CHECK(end.reports[2].metrics.at("val_loss") ==
            doctest::Approx(alone.report.metrics.at("val_loss")).epsilon(1e-3));
      CHECK(end.final_metrics == ends[0].final_metrics);
      CHECK(numbers_in(shop.path("equal" + std::to_string(ranks) + ".model." +
                                 std::to_string(member))) == first);
    }
  }
}

// One update of one batch in two equal parts: what comes to the first batch
// norm is what comes to it in one process, so the mean of the parts' running
// means is the running mean of the whole.
TEST_CASE("running means of ranks become their mean") {
  Workshop shop;
  Recipe recipe = parallel_recipe(2);
  recipe.model.layers = {{.kind = LayerKind::conv, .channels = 4, .kernel = 3},
                         {.kind = LayerKind::batch_norm},
                         {.kind = LayerKind::tanh},
                         {.kind = LayerKind::linear, .channels = 4}};
  recipe.train.batch_size = 32;
  recipe.train.step_samples = 32;
  TrialAssignment assignment = final_assignment(shop, recipe);
  assignment.horizon = 1;
  assignment.recipe.train.epochs = 32.0 / 400;
  train_alone(shop, assignment, 1);
  Gang gang(recipe, "mean");
  check_no_failure(run_gang(shop, gang, assignment, 1));
  const auto means = [&](const std::string& model) {
    const SafetensorsFile file(shop.path(model));
    const int64_t shape[] = {4};
    const auto values = file.floats("batch_norm1.running_mean", shape);
    return std::vector<float>(values.begin(), values.end());
  };
  const auto whole = means("alone.model");
  for (const std::string member : {"mean.model.0", "mean.model.1"}) {
    const auto mean = means(member);
    for (size_t i = 0; i < whole.size(); ++i) {
      CHECK(std::abs(whole[i]) > 1e-4);
      CHECK(mean[i] == doctest::Approx(whole[i]).epsilon(1e-4));
    }
  }
}

TEST_CASE("running statistics of ranks are equal before they are judged") {
  Workshop shop;
  Recipe recipe = parallel_recipe(2);
  recipe.model.arch = "resnet18";
  recipe.model.width = 4;
  recipe.train.epochs = 2;
  TrialAssignment assignment = final_assignment(shop, recipe);
  assignment.horizon = 2;
  Gang gang(recipe, "norm");
  const auto ends = run_gang(shop, gang, assignment, 2);
  check_no_failure(ends);
  CHECK(ends[0].reports[1].metrics == ends[1].reports[1].metrics);
  CHECK(numbers_in(shop.path("norm.model.0")) ==
        numbers_in(shop.path("norm.model.1")));
}

TEST_CASE("a gang goes on from the checkpoint of another number of ranks") {
  Workshop shop;
  TrialAssignment assignment = shop.assignment();
  const Alone through = train_alone(shop, assignment, 4);
  const int ranks[] = {3, 1, 2};
  const int steps[] = {1, 2, 1};
  int done = 0;
  for (int i = 0; i < 3; ++i) {
    assignment.recipe = parallel_recipe(ranks[i]);
    assignment.resume_step = done;
    assignment.attempt = i + 1;
    Gang gang(assignment.recipe, "resume" + std::to_string(i));
    const auto ends = run_gang(shop, gang, assignment, steps[i]);
    check_no_failure(ends);
    done += steps[i];
    REQUIRE(ends[0].reports.size() == static_cast<size_t>(steps[i]));
    CHECK(ends[0].reports.back().step == done);
  }
  CHECK(relative_error(numbers_in(assignment.checkpoint), through.numbers) <
        1e-4);
  // One process can go on from it as well.
  assignment.recipe = small_recipe();
  assignment.resume_step = 4;
  CHECK(shop.start(assignment)->steps_done() == 4);
}

TEST_CASE("a gang goes on from a checkpoint that is behind the record") {
  Workshop shop;
  TrialAssignment assignment = shop.assignment(parallel_recipe(2));
  const Alone through = train_alone(shop, shop.assignment(), 3);
  std::filesystem::remove(assignment.checkpoint);
  Gang before(assignment.recipe, "before");
  check_no_failure(run_gang(shop, before, assignment, 2));
  assignment.resume_step = 3;  // of a generation that a power cut has taken
  assignment.attempt = 2;
  Gang after(assignment.recipe, "after");
  const auto ends = run_gang(shop, after, assignment, 1);
  check_no_failure(ends);
  REQUIRE(ends[0].reports.size() == 1);
  CHECK(ends[0].reports[0].step == 3);
  CHECK(relative_error(numbers_in(assignment.checkpoint), through.numbers) <
        1e-4);
}

TEST_CASE("a loss that diverges fails all ranks alike") {
  Workshop shop;
  Recipe recipe = parallel_recipe(2);
  recipe.train.lr = 1e6;
  Gang gang(recipe, "diverges");
  const auto ends = run_gang(shop, gang, shop.assignment(recipe), 1);
  for (const MemberEnd& end : ends) {
    REQUIRE(end.failure.has_value());
    CHECK(*end.failure == Reason::diverged);
    CHECK(end.text.starts_with("step 1: diverged"));
    CHECK(end.text == ends[0].text);
  }
}

TEST_CASE("a gang that is closed ends its members with what was said") {
  Workshop shop;
  const Recipe recipe = parallel_recipe(2);
  Gang gang(recipe, "closed");
  std::thread closing([&] {
    while (gang.server().status("closed").round < 3) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    gang.server().close("closed", "the study is over");
  });
  TrialAssignment assignment = shop.assignment(recipe);
  assignment.horizon = 400;
  assignment.recipe.train.epochs = 400;
  const auto ends = run_gang(shop, gang, assignment, 400);
  closing.join();
  for (const MemberEnd& end : ends) {
    REQUIRE(end.failure.has_value());
    CHECK(*end.failure == Reason::lease_lapsed);
    CHECK(end.text.find("the study is over") != std::string::npos);
  }
}

TEST_CASE("a step that was stopped is trained again from its beginning") {
  Workshop shop;
  TrialAssignment assignment = shop.assignment();
  const Alone through = train_alone(shop, assignment, 2);
  assignment.recipe = parallel_recipe(2);
  Gang gang(assignment.recipe, "paused");
  const auto ends = run_with_a_stop(shop, gang, assignment);
  check_no_failure(ends);
  for (const MemberEnd& end : ends) {
    REQUIRE(end.reports.size() == 2);
    CHECK(end.reports[1].step == 2);
  }
  CHECK(relative_error(numbers_in(assignment.checkpoint), through.numbers) <
        1e-4);
}
