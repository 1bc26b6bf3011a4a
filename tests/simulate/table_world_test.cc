#include "dtune/simulate/table_world.h"

#include <cmath>

#include "simulate/small_world.h"
#include <doctest/doctest.h>

using namespace dtune;           // NOLINT: a test
using namespace dtune::testing;  // NOLINT

namespace {

Study empty_study() {
  Study study;
  Parameter lr;
  lr.name = "lr";
  lr.key = "train.lr";
  lr.low = 0.001;
  lr.high = 0.1;
  lr.log = true;
  study.recipe.study = "mine";
  study.recipe.space = SearchSpace({lr});
  study.horizon = 3;
  return study;
}

Trial& add_trial(Study& study, double lr, const std::vector<double>& values) {
  Trial trial;
  trial.id = std::ssize(study.trials) + 1;
  trial.point = {{"lr", lr}};
  for (const double value : values) {
    trial.curve.push_back(
        {.step = trial.steps() + 1,
         .metrics = {{study.recipe.objective.metric, value}}});
  }
  study.trials.push_back(trial);
  return study.trials.back();
}

Point at(double lr) { return {{"lr", lr}}; }

}  // namespace

TEST_CASE("a proposal is trained as the nearest trial that is not taken") {
  Study study = empty_study();
  add_trial(study, 0.001, {0.1, 0.2, 0.3});
  add_trial(study, 0.01, {0.2, 0.4, 0.6});
  add_trial(study, 0.1, {0.3, 0.3});
  TableFacts facts;
  const auto world = make_table_world(study, "mine.db", &facts);
  CHECK(facts.trials == 3);
  CHECK(facts.ended_early == 1);
  CHECK(world->steps() == 3);
  Study other = empty_study();
  CHECK(world->settle(at(0.012), other) == at(0.01));
  add_trial(other, 0.01, {});
  // Nearest in the logarithm, as the unit cube has it.
  CHECK(world->settle(at(0.012), other) == at(0.1));
  CHECK(world->settle(at(0.008), other) == at(0.001));
  add_trial(other, 0.001, {});
  add_trial(other, 0.1, {});
  CHECK_FALSE(world->settle(at(0.05), other).has_value());
  CHECK(world->value(at(0.01), 2) == 0.4);
  CHECK(world->value(at(0.1), 3) == 0.3);  // keeps its last value
  CHECK(world->best() == 0.6);
  CHECK(world->median_final() == 0.3);
}

TEST_CASE("a loss is minimized in its own sign") {
  Study study = empty_study();
  study.recipe.objective = {"val_loss", Goal::minimize};
  add_trial(study, 0.001, {3, 2});
  add_trial(study, 0.01, {2, 0.5});
  add_trial(study, 0.1, {2.5, 1.5});
  const auto world = make_table_world(study, "mine.db");
  CHECK(world->best() == -0.5);
  CHECK(world->median_final() == -1.5);
  SimulationOptions options;
  options.budgets = {2, 4};
  const Recipe recipe = simulated_recipe(*world, "random", "fifo", 1);
  const auto result =
      simulate(*world, recipe, listed_tuner(*world, {0.1, 0.01}), options);
  CHECK(result.regret[0] == doctest::Approx(1));
  CHECK(result.regret[1] == doctest::Approx(0));
}

TEST_CASE("a trial that diverged diverges again") {
  Study study = empty_study();
  add_trial(study, 0.001, {0.1, 0.2, 0.3});
  add_trial(study, 0.01, {0.9, std::nan("")}).reason = Reason::diverged;
  const auto world = make_table_world(study, "mine.db");
  CHECK(std::isnan(world->value(at(0.01), 2)));
  CHECK(std::isnan(world->value(at(0.01), 3)));
  CHECK(world->best() == 0.9);
  CHECK(world->median_final() == 0.3);
  SimulationOptions options;
  const auto result =
      simulate(*world, simulated_recipe(*world, "sobol", "fifo", 1),
               listed_tuner(*world, {0.01, 0.001}), options);
  CHECK(result.steps == 5);
}

TEST_CASE("a study without two trials to choose from is refused") {
  Study study = empty_study();
  const auto error = [&]() -> std::string {
    try {
      make_table_world(study, "mine.db");
    } catch (const Error& e) {
      return std::string(to_string(e.kind())) + ": " + e.what();
    }
    return "";
  };
  add_trial(study, 0.001, {});
  add_trial(study, 0.05, {std::nan("")});
  CHECK(error() ==
        "data: mine.db: has no trial with a finite val_accuracy; a simulation "
        "needs two at least (let the study run on)");
  add_trial(study, 0.01, {0.5});
  CHECK(error().starts_with("data: mine.db: has one trial"));
  add_trial(study, 0.01, {0.6});  // the same point
  CHECK(error().starts_with("data: mine.db: has one trial"));
  add_trial(study, 0.02, {0.6});
  CHECK(error().empty());
}
