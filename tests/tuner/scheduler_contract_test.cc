// What every scheduler promises, run over every kind of the factory's table.
#include <cmath>
#include <limits>

#include "tuner/simulation.h"
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "dtune/tuner/factory.h"

using namespace dtune;           // NOLINT(google-build-using-namespace)
using namespace dtune::testing;  // NOLINT(google-build-using-namespace)

namespace {

struct ContractRun {
  Study study;
  std::vector<std::string> log;
};

ContractRun contract_run(const Recipe& recipe, int horizon,
                         const Options& options) {
  ContractRun result{make_study(recipe, horizon), {}};
  const auto sampler = make_sampler(recipe);
  const auto scheduler = make_scheduler(recipe, horizon);
  result.log = simulate(result.study, *sampler, *scheduler, options);
  return result;
}

Options contract_slots(int count, uint64_t order_seed = 1) {
  Options options;
  options.slots = count;
  options.order_seed = order_seed;
  return options;
}

void check_best_at_horizon(const Study& study) {
  const Trial* best = incumbent(study);
  REQUIRE(best != nullptr);
  CHECK(best->steps() == study.horizon);
  CHECK(best->state == TrialState::complete);
}

void check_every_sampler(int slot_count) {
  for (const NamedKind& sampler : sampler_kinds()) {
    for (const NamedKind& scheduler : scheduler_kinds()) {
      CAPTURE(sampler.name);
      CAPTURE(scheduler.name);
      const Recipe recipe = cube_recipe(sampler.name, scheduler.name, 11, 40);
      const ContractRun result =
          contract_run(recipe, 27, contract_slots(slot_count));
      CHECK(result.study.trials.size() == 40);
      CHECK(duplicate_points(result.study) == 0);
      check_best_at_horizon(result.study);
    }
  }
}

}  // namespace

// Three cases, since ctest runs them side by side: they take long.
TEST_CASE("every sampler works with every scheduler on one slot") {
  check_every_sampler(1);
}

TEST_CASE("every sampler works with every scheduler on three slots") {
  check_every_sampler(3);
}

TEST_CASE("every sampler works with every scheduler on eight slots") {
  check_every_sampler(8);
}

TEST_CASE("the best trial reaches the horizon whatever order reports come in") {
  for (const NamedKind& scheduler : scheduler_kinds()) {
    for (uint64_t seed = 0; seed < 30; ++seed) {
      CAPTURE(scheduler.name);
      CAPTURE(seed);
      const int trials = int(1 + seed * 7 % 50);
      const int horizon = int(1 + seed * 5 % 40);
      const Recipe recipe = cube_recipe("random", scheduler.name, seed, trials);
      const ContractRun result = contract_run(
          recipe, horizon, contract_slots(int(1 + seed % 5), seed));
      CHECK(std::ssize(result.study.trials) == trials);
      check_best_at_horizon(result.study);
    }
  }
}

TEST_CASE("a study replays: same seed, same order of reports, same decisions") {
  for (const NamedKind& scheduler : scheduler_kinds()) {
    CAPTURE(scheduler.name);
    const Recipe recipe = cube_recipe("sobol", scheduler.name, 2, 30);
    const ContractRun once = contract_run(recipe, 12, contract_slots(4, 77));
    CHECK(once.log == contract_run(recipe, 12, contract_slots(4, 77)).log);
  }
}

TEST_CASE("a scheduler made anew in mid-study decides like the one before") {
  for (const NamedKind& kind : scheduler_kinds()) {
    CAPTURE(kind.name);
    const Recipe recipe = cube_recipe("sobol", kind.name, 2, 30);
    Study study = make_study(recipe, 12);
    const auto sampler = make_sampler(recipe);
    const auto scheduler = make_scheduler(recipe, 12);
    Options options = contract_slots(3);
    options.stop_after_reports = 60;
    simulate(study, *sampler, *scheduler, options);
    const auto fresh = make_scheduler(recipe, 12);
    for (const bool may_start : {true, false}) {
      const Directive a = scheduler->next(study, *sampler, 500, may_start);
      const Directive b = fresh->next(study, *sampler, 500, may_start);
      CHECK(a.kind == b.kind);
      CHECK(a.trial == b.trial);
      CHECK(a.point == b.point);
      CHECK(a.target_step == b.target_step);
      CHECK(a.why == b.why);
    }
  }
}

TEST_CASE("an interrupted study goes on with the trials that were running") {
  for (const NamedKind& kind : scheduler_kinds()) {
    for (const int64_t reports : {1, 7, 40, 100}) {
      CAPTURE(kind.name);
      CAPTURE(reports);
      const Recipe recipe = cube_recipe("sobol", kind.name, 2, 20);
      Study study = make_study(recipe, 9);
      const auto sampler = make_sampler(recipe);
      Options options = contract_slots(3);
      options.stop_after_reports = reports;
      simulate(study, *sampler, *make_scheduler(recipe, 9), options);
      options.stop_after_reports = -1;
      simulate(study, *sampler, *make_scheduler(recipe, 9), options);
      CHECK(study.trials.size() == 20);
      CHECK(duplicate_points(study) == 0);
      check_best_at_horizon(study);
      for (const Trial& trial : study.trials) CHECK(trial.steps() > 0);
    }
  }
}

TEST_CASE("a budget raised after the end starts new trials only") {
  for (const NamedKind& kind : scheduler_kinds()) {
    CAPTURE(kind.name);
    const Recipe recipe = cube_recipe("sobol", kind.name, 2, 10);
    ContractRun result = contract_run(recipe, 9, contract_slots(2));
    result.study.recipe.budget.trials = 25;
    const auto sampler = make_sampler(recipe);
    simulate(result.study, *sampler, *make_scheduler(recipe, 9),
             contract_slots(2));
    CHECK(result.study.trials.size() == 25);
    CHECK(duplicate_points(result.study) == 0);
    check_best_at_horizon(result.study);
  }
}

TEST_CASE("the end of a small space ends the search before the budget does") {
  for (const NamedKind& kind : scheduler_kinds()) {
    CAPTURE(kind.name);
    Recipe recipe = cube_recipe("sobol", kind.name, 2, 1000);
    Parameter lr = cube()[0];
    lr.kind = ParameterKind::real;
    lr.log = false;
    lr.low = 0.1;
    lr.high = 0.5;
    lr.quantum = 0.1;
    recipe.space = SearchSpace({lr});
    const ContractRun result = contract_run(recipe, 9, contract_slots(3));
    CHECK(result.study.trials.size() == 5);
    check_best_at_horizon(result.study);
  }
}

TEST_CASE("trials that diverge at once do not stop the search") {
  for (const NamedKind& kind : scheduler_kinds()) {
    CAPTURE(kind.name);
    Options options = contract_slots(3);
    options.curve = [](const Trial& trial, int step) {
      return trial.id % 3 != 0 ? std::numeric_limits<double>::quiet_NaN()
                               : smooth_curve(trial, step);
    };
    const Recipe recipe = cube_recipe("sobol", kind.name, 2, 30);
    const ContractRun result = contract_run(recipe, 9, options);
    CHECK(result.study.trials.size() == 30);
    check_best_at_horizon(result.study);
  }
}

TEST_CASE("a study in which everything diverges ends") {
  for (const NamedKind& kind : scheduler_kinds()) {
    CAPTURE(kind.name);
    Options options = contract_slots(3);
    options.curve = [](const Trial&, int) {
      return std::numeric_limits<double>::quiet_NaN();
    };
    const Recipe recipe = cube_recipe("sobol", kind.name, 2, 12);
    const ContractRun result = contract_run(recipe, 9, options);
    CHECK(result.study.trials.size() == 12);
    CHECK(incumbent(result.study) == nullptr);
  }
}

TEST_CASE("equal and infinite metrics are ordinary") {
  for (const NamedKind& kind : scheduler_kinds()) {
    CAPTURE(kind.name);
    Options options = contract_slots(3);
    options.curve = [](const Trial& trial, int) {
      return trial.id % 4 == 0 ? std::numeric_limits<double>::infinity() : 0.5;
    };
    const Recipe recipe = cube_recipe("sobol", kind.name, 2, 20);
    const ContractRun result = contract_run(recipe, 9, options);
    CHECK(incumbent(result.study)->id == 1);
    check_best_at_horizon(result.study);
  }
}

TEST_CASE("a minimized metric is tuned downwards") {
  for (const NamedKind& kind : scheduler_kinds()) {
    CAPTURE(kind.name);
    Recipe recipe = cube_recipe("sobol", kind.name, 2, 27);
    recipe.objective.goal = Goal::minimize;
    Options options = contract_slots(2);
    options.curve = [](const Trial& trial, int step) {
      return 1 - smooth_curve(trial, step);
    };
    const ContractRun result = contract_run(recipe, 9, options);
    check_best_at_horizon(result.study);
    for (const Trial& trial : result.study.trials) {
      if (trial.state != TrialState::complete) {
        CHECK(*best_value(recipe.objective, trial) <=
              *best_value(recipe.objective, *incumbent(result.study)));
      }
    }
  }
}

TEST_CASE("the final training's trial takes no part in the search") {
  for (const NamedKind& kind : scheduler_kinds()) {
    CAPTURE(kind.name);
    const Recipe recipe = cube_recipe("sobol", kind.name, 2, 10);
    Study study = contract_run(recipe, 9, contract_slots(2)).study;
    Trial final_trial;
    final_trial.id = std::ssize(study.trials) + 1;
    final_trial.kind = TrialKind::final;
    final_trial.state = TrialState::paused;
    study.trials.push_back(final_trial);
    const auto sampler = make_sampler(recipe);
    const Directive directive =
        make_scheduler(recipe, 9)->next(study, *sampler, 900, false);
    CHECK(directive.kind == Directive::Kind::finish);
  }
}
