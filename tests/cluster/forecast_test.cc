#include "dtune/cluster/forecast.h"

#include <doctest/doctest.h>

namespace dtune {
namespace {

// `budget` trials of 10 steps; one that has reported `steps` of two seconds.
Study study_of(int budget, int steps) {
  Study study;
  study.horizon = 10;
  study.recipe.budget.trials = budget;
  study.trials.emplace_back();
  Trial& trial = study.trials.back();
  trial.id = 1;
  trial.state = TrialState::running;
  trial.target_step = 10;
  for (int step = 1; step <= steps; ++step) {
    StepReport report;
    report.step = step;
    report.seconds = 2;
    trial.curve.push_back(report);
  }
  return study;
}

ForecastFacts facts_of(double elapsed, int64_t steps) {
  ForecastFacts facts;
  facts.elapsed = facts.session = elapsed;
  facts.session_steps = steps;
  facts.best = 1;
  return facts;
}

}  // namespace

TEST_CASE("the time left holds what is known and what may come") {
  const Study study = study_of(3, 5);
  const auto left = Forecaster().estimate(study, facts_of(10, 5)).left;
  REQUIRE(left);
  // Five steps to the target; two trials of five steps, or of ten, at 2 s each.
  CHECK(left->low == doctest::Approx(2 * (5 + 2 * 5)));
  CHECK(left->high == doctest::Approx(2 * (5 + 2 * 10)));
}

TEST_CASE("the time left includes the final training") {
  const Study study = study_of(3, 5);
  ForecastFacts facts = facts_of(10, 5);
  const auto without = Forecaster().estimate(study, facts).left;
  facts.final_steps = 20;
  const auto with = Forecaster().estimate(study, facts).left;
  CHECK(with->low > without->low + 20);
  CHECK(with->high > without->high + 40);
  facts.searching = false;  // it has begun, and what is left gets less
  facts.finals = {1};
  const auto under_way = Forecaster().estimate(study, facts).left;
  CHECK(under_way->low > 0);
  CHECK(under_way->high < with->high);
}

TEST_CASE("where steps are levels, time goes by their images") {
  Study study = study_of(1, 0);
  study.horizon = 4;
  study.recipe.fidelity.kind = FidelityKind::data_limit;
  study.recipe.fidelity.levels = 4;
  Trial& trial = study.trials.front();
  trial.target_step = 4;
  // An eighth, a quarter, half of the images, 8 s for all of them.
  for (int step = 1; step <= 3; ++step) {
    StepReport report;
    report.step = step;
    report.seconds = double(1 << (step - 1));
    trial.curve.push_back(report);
  }
  const auto left = Forecaster().estimate(study, facts_of(7, 3)).left;
  REQUIRE(left);
  CHECK(left->low == doctest::Approx(8));
  CHECK(left->high == doctest::Approx(8));
  // Another trial as far as this one, or to its end.
  study.recipe.budget.trials = 2;
  const auto two = Forecaster().estimate(study, facts_of(7, 3)).left;
  CHECK(two->low == doctest::Approx(8 + 7));
  CHECK(two->high == doctest::Approx(8 + 15));
  study.recipe.budget.trials = 0;
  study.recipe.budget.steps = 6;
  CHECK(Forecaster().estimate(study, facts_of(7, 3)).left->high ==
        doctest::Approx(7));
  // A final training of the last level alone, through twice the epochs, has
  // another 16 s.
  ForecastFacts facts = facts_of(7, 3);
  facts.searching = false;
  facts.finals = {2};
  facts.final_steps = 1;
  study.recipe.train.epochs = 10;
  study.recipe.final_training.epochs = 20;
  Trial final_trial;
  final_trial.id = 2;
  final_trial.kind = TrialKind::final;
  final_trial.target_step = 1;
  study.trials.push_back(final_trial);
  const auto last = Forecaster().estimate(study, facts).left;
  CHECK(last->low < 16);
  CHECK(last->low > 8);
  CHECK(last->high > 16);
  CHECK(last->high < 32);
}

TEST_CASE("budgets of time and of steps cap what is left") {
  Study study = study_of(1000, 5);
  study.recipe.budget.time = std::chrono::seconds(60);
  study.searched_seconds = 10;
  CHECK(Forecaster().estimate(study, facts_of(10, 5)).left->high == 50);
  study.recipe.budget.time = Duration(0);
  study.recipe.budget.steps = 8;
  CHECK(Forecaster().estimate(study, facts_of(10, 5)).left->high ==
        doctest::Approx(6));
}

TEST_CASE("no time is shown where nothing limits the search, or was seen") {
  CHECK_FALSE(
      Forecaster().estimate(study_of(0, 5), facts_of(10, 5)).left.has_value());
  CHECK_FALSE(
      Forecaster().estimate(study_of(3, 0), facts_of(1, 0)).left.has_value());
}

TEST_CASE("what is done never gets less") {
  Forecaster forecaster;
  const double before =
      forecaster.estimate(study_of(1, 9), facts_of(18, 9)).done;
  CHECK(before > 0.5);
  // A budget that grows, trials that are taken up again: more is left.
  CHECK(forecaster.estimate(study_of(40, 9), facts_of(18, 9)).done == before);
  CHECK(forecaster.estimate(study_of(1, 10), facts_of(1000, 10)).done < 1);
}

}  // namespace dtune
