#include <limits>

#include "tuner/simulation.h"
#include <doctest/doctest.h>

#include "dtune/tuner/factory.h"

using namespace dtune;           // NOLINT(google-build-using-namespace)
using namespace dtune::testing;  // NOLINT(google-build-using-namespace)

namespace {

Study median_study(int64_t grace, int64_t min_trials) {
  Recipe recipe = cube_recipe("sobol", "median", 1, 100);
  recipe.scheduler.options = {{"grace_steps", grace},
                              {"min_trials", min_trials}};
  return make_study(recipe, 10);
}

Trial& add_running(Study& study, std::vector<double> values) {
  Trial trial;
  trial.id = std::ssize(study.trials) + 1;
  trial.state = TrialState::running;
  trial.target_step = 10;
  for (const double value : values) {
    trial.curve.push_back({trial.steps() + 1, {{"val_accuracy", value}}});
  }
  study.trials.push_back(trial);
  return study.trials.back();
}

Verdict judge_last(const Study& study) {
  return make_scheduler(study.recipe, 10)
      ->judge(study, study.trials.back(), false);
}

}  // namespace

TEST_CASE("a trial whose best is below the median of running means is cut") {
  Study study = median_study(1, 3);
  add_running(study, {0.1, 0.5});  // mean 0.3
  add_running(study, {0.2, 0.6});  // 0.4
  add_running(study, {0.3, 0.7});  // 0.5
  add_running(study, {0.39, 0.1});
  const Verdict verdict = judge_last(study);
  CHECK(verdict.kind == Verdict::Kind::cut);
  CHECK(verdict.reason == Reason::median);
  CHECK(verdict.why ==
        "best val_accuracy by step 2 is 0.39, the median of 3 others' means "
        "0.4");
}

TEST_CASE("a trial at or above the median goes on") {
  Study study = median_study(1, 3);
  add_running(study, {0.25, 0.25});
  add_running(study, {0.5, 0.5});
  add_running(study, {0.75, 0.75});
  add_running(study, {0.5, 0.25});
  CHECK(judge_last(study).kind == Verdict::Kind::go_on);
}

TEST_CASE("nothing is cut within the grace steps or against too few others") {
  Study study = median_study(2, 3);
  for (int i = 0; i < 3; ++i) add_running(study, {0.9, 0.9, 0.9});
  Study graceful = study;
  add_running(graceful, {0.1, 0.1});
  CHECK(judge_last(graceful).kind == Verdict::Kind::go_on);
  add_running(study, {0.1, 0.1, 0.1});
  CHECK(judge_last(study).kind == Verdict::Kind::cut);
  study.trials.erase(study.trials.begin());
  for (Trial& trial : study.trials) --trial.id;
  CHECK(judge_last(study).kind == Verdict::Kind::go_on);
}

TEST_CASE("others that have not got as far do not count for the median") {
  Study study = median_study(1, 3);
  for (int i = 0; i < 5; ++i) add_running(study, {0.9});
  add_running(study, {0.1, 0.1});
  CHECK(judge_last(study).kind == Verdict::Kind::go_on);
}

TEST_CASE("a trial without any finite value is below every median") {
  Study study = median_study(1, 2);
  add_running(study, {0.1, 0.1});
  add_running(study, {0.1, 0.1});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  add_running(study, {nan, nan});
  const Verdict verdict = judge_last(study);
  CHECK(verdict.kind == Verdict::Kind::cut);
  CHECK(verdict.why.find("is not finite") != std::string::npos);
}

TEST_CASE("the median rule saves steps and keeps the best trial") {
  Recipe recipe = cube_recipe("sobol", "median", 1, 40);
  Study study = make_study(recipe, 20);
  const auto sampler = make_sampler(recipe);
  const auto scheduler = make_scheduler(recipe, 20);
  Options options;
  options.slots = 2;
  // Flat from the start: running means of rising curves are lenient.
  options.curve = [](const Trial& trial, int /*step*/) {
    return smooth_curve(trial, 20);
  };
  simulate(study, *sampler, *scheduler, options);
  CHECK(steps_spent(study) < 40 * 20 * 3 / 4);
  CHECK(incumbent(study)->state == TrialState::complete);
}
