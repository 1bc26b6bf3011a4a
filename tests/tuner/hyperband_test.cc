#include <cmath>
#include <map>
#include <vector>

#include "tuner/simulation.h"
#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/tuner/factory.h"
#include "dtune/tuner/rungs.h"

using namespace dtune;           // NOLINT(google-build-using-namespace)
using namespace dtune::testing;  // NOLINT(google-build-using-namespace)

namespace {

Recipe hyperband_recipe(int trials) {
  return cube_recipe("sobol", "hyperband", 1, trials);
}

// The step to which each of the first trials is started.
std::vector<int> first_targets(const Recipe& recipe, int horizon, int trials) {
  Study study = make_study(recipe, horizon);
  const auto sampler = make_sampler(recipe);
  const auto scheduler = make_scheduler(recipe, horizon);
  std::vector<int> targets;
  for (int i = 0; i < trials; ++i) {
    const Directive directive =
        scheduler->next(study, *sampler, ++study.decisions, true);
    REQUIRE(directive.kind == Directive::Kind::start);
    targets.push_back(directive.target_step);
    Trial trial;
    trial.id = std::ssize(study.trials) + 1;
    trial.point = directive.point;
    trial.state = TrialState::running;
    trial.target_step = directive.target_step;
    study.trials.push_back(trial);
  }
  return targets;
}

std::map<int, int> first_target_counts(const Recipe& recipe, int horizon) {
  std::map<int, int> counts;
  for (const int target : first_targets(recipe, horizon, 60)) ++counts[target];
  return counts;
}

// Reports values at steps 1, 2, ... of a trial, which is then paused.
void report(Trial& trial, const std::vector<double>& values) {
  for (const double value : values) {
    trial.curve.push_back({trial.steps() + 1, {{"val_accuracy", value}}});
  }
  trial.state = TrialState::paused;
  trial.target_step = trial.steps();
}

// A study with so many trials that have reported nothing.
Study study_of(int trials, int horizon) {
  Study study = make_study(hyperband_recipe(100), horizon);
  for (int i = 0; i < trials; ++i) {
    Trial trial;
    trial.id = i + 1;
    trial.point = {{"lr", double(trial.id)}};
    trial.state = TrialState::running;
    trial.attempt = 1;
    study.trials.push_back(trial);
  }
  return study;
}

// Steps 1, 3, 9, the shares of a recipe with eta 3.
Rungs nine_steps() { return {{1, 3, 9}, 3, {3 / 7.0, 1 / 5.0, 1 / 9.0}}; }

// The first three trials of a bracket.
std::vector<TrialId> first_three(const Rungs& rungs, size_t bracket) {
  std::vector<TrialId> trials;
  for (TrialId id = 1; trials.size() < 3; ++id) {
    if (rungs.bracket(id) == bracket) trials.push_back(id);
  }
  return trials;
}

}  // namespace

TEST_CASE("trials are dealt to brackets with rising first rungs") {
  CHECK(first_targets(hyperband_recipe(100), 9, 6) ==
        std::vector{1, 3, 1, 9, 1, 1});
}

TEST_CASE("the first rung is the horizon by eta three times at the most") {
  const auto rungs = [](int horizon) {
    std::vector<int> steps;
    for (const auto& [step, count] :
         first_target_counts(hyperband_recipe(100), horizon)) {
      steps.push_back(step);
    }
    return steps;
  };
  CHECK(rungs(1) == std::vector{1});
  CHECK(rungs(2) == std::vector{1, 2});
  CHECK(rungs(5) == std::vector{2, 5});
  CHECK(rungs(12) == std::vector{2, 6, 12});
  CHECK(rungs(27) == std::vector{1, 3, 9, 27});
  CHECK(rungs(300) == std::vector{12, 36, 108, 300});
}

TEST_CASE("a bracket has its share of any number of trials") {
  const Rungs rungs = nine_steps();
  std::vector<double> counts(3);
  for (TrialId id = 1; id <= 100'000; ++id) {
    ++counts[rungs.bracket(id)];
    for (size_t k = 0; k < 3; ++k) {
      REQUIRE(std::abs(counts[k] - rungs.share(k) * double(id)) < 4);
    }
  }
  CHECK(rungs.share(0) + rungs.share(1) + rungs.share(2) == doctest::Approx(1));
}

TEST_CASE("every bracket gets the same budget") {
  Study study = make_study(hyperband_recipe(500), 9);
  const auto sampler = make_sampler(study.recipe);
  const auto scheduler = make_scheduler(study.recipe, 9);
  Options options;
  options.slots = 4;
  simulate(study, *sampler, *scheduler, options);
  const Rungs rungs = nine_steps();
  std::vector<double> steps(3);
  for (const Trial& trial : study.trials) {
    steps[rungs.bracket(trial.id)] += trial.steps();
  }
  const double third = double(steps_spent(study)) / 3;
  // A rung promotes more than a third where its best come late.
  for (const double spent : steps) {
    CHECK(spent == doctest::Approx(third).epsilon(0.15));
  }
}

TEST_CASE("where steps are levels the budget is in images") {
  Recipe recipe = hyperband_recipe(100);
  recipe.scheduler.options = {{"eta", int64_t{2}}, {"min_steps", int64_t{1}}};
  std::map<int, int> counts = first_target_counts(recipe, 4);
  CHECK(counts[1] < 4 * counts[4]);
  recipe.fidelity.kind = FidelityKind::data_limit;
  recipe.fidelity.levels = 4;
  // A step on an eighth of the images, half of the trials a step on a quarter
  // more, a quarter of them the rest: 5/8 against 15/8.
  counts = first_target_counts(recipe, 4);
  CHECK(counts[1] > 2 * counts[4]);
  CHECK(counts[1] < 4 * counts[4]);
}

TEST_CASE("where steps are levels a bracket begins two levels above another") {
  Recipe recipe = hyperband_recipe(100);
  recipe.fidelity.kind = FidelityKind::data_limit;
  const auto rungs = [&](int levels) {
    recipe.fidelity.levels = levels;
    std::vector<int> steps;
    for (const auto& [step, count] : first_target_counts(recipe, levels)) {
      steps.push_back(step);
    }
    return steps;
  };
  CHECK(rungs(2) == std::vector{1, 2});
  CHECK(rungs(4) == std::vector{2, 4});
  CHECK(rungs(9) == std::vector{3, 5, 7, 9});
}

TEST_CASE("a trial is compared with those of its bracket") {
  const Rungs rungs = nine_steps();
  Study study = study_of(20, 9);
  for (const TrialId id : first_three(rungs, 0)) {
    report(study.trial(id), {0.5, 0.5, 0.5});
  }
  const std::vector<TrialId> second = first_three(rungs, 1);
  report(study.trial(second[0]), {0.1, 0.1, 0.1});
  report(study.trial(second[1]), {0.1, 0.1, 0.3});
  const auto scheduler = make_scheduler(study.recipe, 9);
  const Verdict alone = scheduler->judge(study, study.trial(second[1]), true);
  CHECK(alone.kind == Verdict::Kind::pause);
  CHECK(alone.why == "rank 1 of 2 at step 3 of bracket 2, the best 0 go on");
  report(study.trial(second[2]), {0.1, 0.1, 0.2});
  const Verdict best = scheduler->judge(study, study.trial(second[1]), true);
  CHECK(best.kind == Verdict::Kind::go_on);
  CHECK(best.target_step == 9);
}

TEST_CASE("a trial below its bracket's first rung is not judged") {
  Study study = study_of(2, 9);
  report(study.trial(2), {0.1});
  const auto scheduler = make_scheduler(study.recipe, 9);
  const Verdict verdict = scheduler->judge(study, study.trial(2), true);
  CHECK(verdict.kind == Verdict::Kind::go_on);
  CHECK(verdict.target_step == 3);
}

TEST_CASE(
    "a trial that broke on its way to a bracket's first rung lost there") {
  const Rungs rungs = nine_steps();
  Study study = study_of(20, 9);
  const std::vector<TrialId> second = first_three(rungs, 1);
  report(study.trial(second[0]), {0.1, 0.1, 0.3});
  for (const TrialId id : {second[1], second[2]}) {
    study.trial(id).state = TrialState::failed;
  }
  CHECK(make_scheduler(study.recipe, 9)
            ->judge(study, study.trial(second[0]), true)
            .kind == Verdict::Kind::go_on);
}

TEST_CASE("at the end the best of all brackets goes to the horizon") {
  const Rungs rungs = nine_steps();
  Study study = study_of(20, 9);
  for (Trial& trial : study.trials) {
    report(trial, std::vector<double>(size_t(rungs.first_step(trial.id)), 0.5));
    if (rungs.bracket(trial.id) == 2) trial.state = TrialState::complete;
  }
  const TrialId best = first_three(rungs, 1)[2];
  study.trial(best).curve.back().metrics["val_accuracy"] = 0.9;
  const auto sampler = make_sampler(study.recipe);
  const auto scheduler = make_scheduler(study.recipe, 9);
  // What its rungs promote comes first.
  for (int i = 0; i < 20; ++i) {
    const Directive directive = scheduler->next(study, *sampler, 1, false);
    if (directive.kind != Directive::Kind::resume) break;
    study.trial(directive.trial).state = TrialState::running;
  }
  CHECK(study.trial(best).state == TrialState::running);
}

TEST_CASE("hyperband with options refuses a command of unknown length") {
  Recipe recipe = hyperband_recipe(4);
  recipe.scheduler.options = {{"eta", int64_t{2}}};
  CHECK_THROWS_WITH_AS(
      make_scheduler(recipe, kOpenHorizon),
      "scheduler: hyperband needs the number of steps of a full training "
      "(write command.steps: 20, or scheduler: fifo)",
      Error);
}
