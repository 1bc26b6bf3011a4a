#include <algorithm>
#include <limits>
#include <map>

#include "tuner/simulation.h"
#include <doctest/doctest.h>

#include "dtune/tuner/factory.h"
#include "dtune/tuner/rung_ladder.h"

using namespace dtune;           // NOLINT(google-build-using-namespace)
using namespace dtune::testing;  // NOLINT(google-build-using-namespace)

namespace {

Recipe asha_recipe(int trials, int64_t eta = 3) {
  Recipe recipe = cube_recipe("sobol", "asha", 1, trials);
  recipe.scheduler.options = {{"eta", eta}, {"min_steps", int64_t{1}}};
  return recipe;
}

// Adds a paused trial that has reported the given values.
Trial& add_trial(Study& study, std::vector<double> values) {
  Trial trial;
  trial.id = std::ssize(study.trials) + 1;
  trial.point = {{"lr", double(trial.id)}};
  trial.state = TrialState::paused;
  trial.attempt = 1;
  for (const double value : values) {
    trial.curve.push_back({trial.steps() + 1, {{"val_accuracy", value}}});
  }
  trial.target_step = trial.steps();
  study.trials.push_back(trial);
  return study.trials.back();
}

Directive ask(const Study& study, bool may_start) {
  const auto sampler = make_sampler(study.recipe);
  return make_scheduler(study.recipe, study.horizon)
      ->next(study, *sampler, 1, may_start);
}

Study empty_study(int horizon = 9) {
  return make_study(asha_recipe(100), horizon);
}

}  // namespace

TEST_CASE("rungs grow by eta up to the horizon") {
  CHECK(asha_rungs(27, 3, 1) == std::vector{1, 3, 9, 27});
  CHECK(asha_rungs(12, 3, 1) == std::vector{1, 3, 9, 12});
  CHECK(asha_rungs(50, 2, 4) == std::vector{4, 8, 16, 32, 50});
  CHECK(asha_rungs(1, 3, 1) == std::vector{1});
}

TEST_CASE("rungs of levels are as many levels apart as images are eta times") {
  CHECK(level_rungs(4, 3, 1) == std::vector{1, 3, 4});
  CHECK(level_rungs(8, 2, 5) == std::vector{5, 6, 7, 8});
  CHECK(level_rungs(8, 4, 2) == std::vector{2, 4, 6, 8});
  CHECK(level_rungs(2, 100, 1) == std::vector{1, 2});
  CHECK(level_rungs(3, 3, 3) == std::vector{3});
}

TEST_CASE("where steps are levels the first rung is by their images") {
  Recipe recipe = cube_recipe("sobol", "asha", 1, 9);
  recipe.fidelity.kind = FidelityKind::data_limit;
  recipe.fidelity.levels = 8;
  const auto first = [&](const char* mode) {
    recipe.scheduler.options["mode"] = Value(mode);
    Study study = make_study(recipe, 8);
    return ask(study, true).target_step;
  };
  CHECK(first("aggressive") == 4);  // 1/16 of the images, at least 1/24
  CHECK(first("standard") == 5);
  CHECK(first("conservative") == 6);
}

TEST_CASE("a rung just below the horizon is left out") {
  CHECK(asha_rungs(28, 3, 1) == std::vector{1, 3, 9, 28});
  CHECK(asha_rungs(10, 3, 1) == std::vector{1, 3, 10});
}

TEST_CASE("asha starts new trials while too few have reached the rung") {
  Study study = empty_study();
  CHECK(ask(study, true).kind == Directive::Kind::start);
  CHECK(ask(study, true).target_step == 1);
  add_trial(study, {0.5});
  add_trial(study, {0.6});
  CHECK(ask(study, true).kind == Directive::Kind::start);
}

TEST_CASE("asha promotes the best third of a rung, once") {
  Study study = empty_study();
  add_trial(study, {0.5});
  add_trial(study, {0.7});
  add_trial(study, {0.6});
  const Directive directive = ask(study, true);
  CHECK(directive.kind == Directive::Kind::resume);
  CHECK(directive.trial == 2);
  CHECK(directive.target_step == 3);
  CHECK(directive.why == "rank 1 of 3 at step 1, the best 1 go on");
  study.trial(2).state = TrialState::running;
  study.trial(2).target_step = 3;
  CHECK(ask(study, true).kind == Directive::Kind::start);
}

TEST_CASE("asha serves the highest rung first") {
  Study study = empty_study(27);
  for (int i = 0; i < 9; ++i) add_trial(study, {0.1});
  add_trial(study, {0.1, 0.2, 0.3});
  add_trial(study, {0.1, 0.2, 0.4});
  add_trial(study, {0.1, 0.2, 0.3});
  CHECK(ask(study, true).trial == 11);
  CHECK(ask(study, true).target_step == 9);
}

TEST_CASE("ties at a rung go to the older trial") {
  Study study = empty_study();
  for (int i = 0; i < 3; ++i) add_trial(study, {0.5});
  CHECK(ask(study, true).trial == 1);
}

TEST_CASE("a trial without a finite value is never promoted") {
  Study study = empty_study();
  for (int i = 0; i < 6; ++i) {
    add_trial(study, {std::numeric_limits<double>::quiet_NaN()});
  }
  CHECK(ask(study, true).kind == Directive::Kind::start);
  CHECK(ask(study, false).kind == Directive::Kind::finish);
}

TEST_CASE("a trial that failed on its way counts as one that lost") {
  Study study = empty_study();
  add_trial(study, {0.5});
  add_trial(study, {}).state = TrialState::failed;
  CHECK(ask(study, true).kind == Directive::Kind::start);
  add_trial(study, {}).state = TrialState::failed;
  CHECK(ask(study, true).trial == 1);
}

TEST_CASE("invalid trials count at no rung") {
  Study study = empty_study();
  add_trial(study, {0.5});
  add_trial(study, {}).state = TrialState::invalid;
  add_trial(study, {}).state = TrialState::invalid;
  CHECK(ask(study, true).kind == Directive::Kind::start);
}

TEST_CASE("a promotable trial goes on without a pause, others are paused") {
  Study study = empty_study();
  add_trial(study, {0.5});
  add_trial(study, {0.4});
  add_trial(study, {0.6});
  const auto scheduler = make_scheduler(study.recipe, 9);
  const Verdict best = scheduler->judge(study, study.trial(3), true);
  CHECK(best.kind == Verdict::Kind::go_on);
  CHECK(best.target_step == 3);
  CHECK(best.reason == Reason::promoted);
  const Verdict worst = scheduler->judge(study, study.trial(2), true);
  CHECK(worst.kind == Verdict::Kind::pause);
  CHECK(worst.reason == Reason::rung);
  CHECK(worst.why == "rank 3 of 3 at step 1, the best 1 go on");
}

TEST_CASE("between rungs asha lets a trial run") {
  Study study = empty_study();
  add_trial(study, {0.5, 0.1});
  study.trial(1).target_step = 3;
  const auto scheduler = make_scheduler(study.recipe, 9);
  CHECK(scheduler->judge(study, study.trial(1), false).kind ==
        Verdict::Kind::go_on);
}

TEST_CASE("without new trials the best goes to the horizon, then all is done") {
  Study study = empty_study();
  add_trial(study, {0.5});
  add_trial(study, {0.6});
  CHECK(ask(study, false).trial == 2);
  CHECK(ask(study, false).target_step == 3);
  study.trial(2).state = TrialState::complete;
  CHECK(ask(study, false).kind == Directive::Kind::finish);
}

TEST_CASE("a spare slot at the end takes the next best if it has the time") {
  Study study = empty_study();
  add_trial(study, {0.5, 0.5, 0.5}).state = TrialState::running;
  study.trial(1).target_step = 9;
  add_trial(study, {0.4, 0.4, 0.4});
  CHECK(ask(study, false).trial == 2);
  // One step of the way to the horizon is left to the best, six to the other.
  for (int step = 4; step <= 8; ++step) {
    study.trial(1).curve.push_back({step, {{"val_accuracy", 0.5}}});
  }
  CHECK(ask(study, false).kind == Directive::Kind::wait);
}

TEST_CASE("a better trial that broke does not hold the end up") {
  Study study = empty_study();
  add_trial(study, {0.9}).state = TrialState::failed;
  add_trial(study, {0.5});
  CHECK(ask(study, false).trial == 2);
}

TEST_CASE("a rewritten curve of a later attempt is read anew") {
  Study study = empty_study();
  for (const double value : {0.5, 0.6, 0.4}) add_trial(study, {value});
  const auto sampler = make_sampler(study.recipe);
  const auto scheduler = make_scheduler(study.recipe, 9);
  CHECK(scheduler->next(study, *sampler, 1, true).trial == 2);
  study.trial(2).attempt = 2;
  study.trial(2).curve[0].metrics["val_accuracy"] = 0.1;
  CHECK(scheduler->next(study, *sampler, 2, true).trial == 1);
}

TEST_CASE("asha spends a fraction of what full trainings would") {
  Study study = make_study(asha_recipe(81), 27);
  const auto sampler = make_sampler(study.recipe);
  const auto scheduler = make_scheduler(study.recipe, 27);
  Options options;
  options.slots = 4;
  simulate(study, *sampler, *scheduler, options);
  std::map<int, int> ended_at;
  for (const Trial& trial : study.trials) ++ended_at[trial.steps()];
  CHECK(steps_spent(study) < 81 * 27 / 4);
  CHECK(ended_at[1] > 40);
  CHECK(ended_at[27] >= 3);
}

TEST_CASE("a command of unknown length is run to its end by default") {
  Recipe recipe = cube_recipe("sobol", "asha", 1, 4);
  const auto scheduler = make_scheduler(recipe, kOpenHorizon);
  Study study = make_study(recipe, kOpenHorizon);
  const auto sampler = make_sampler(recipe);
  CHECK(scheduler->next(study, *sampler, 1, true).target_step == kOpenHorizon);
}

TEST_CASE("asha with options refuses a command of unknown length") {
  CHECK_THROWS_WITH_AS(
      make_scheduler(asha_recipe(4), kOpenHorizon),
      "scheduler: asha needs the number of steps of a full training (write "
      "command.steps: 20, or scheduler: fifo)",
      Error);
}
