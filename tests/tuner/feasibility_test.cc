#include "dtune/tuner/feasibility.h"

#include <cmath>

#include "tuner/simulation.h"
#include <doctest/doctest.h>

#include "dtune/tuner/factory.h"

using namespace dtune;           // NOLINT(google-build-using-namespace)
using namespace dtune::testing;  // NOLINT(google-build-using-namespace)

namespace {

Recipe bounded_recipe(const std::string& sampler, const std::string& scheduler,
                      uint64_t seed, int trials) {
  Recipe recipe = cube_recipe(sampler, scheduler, seed, trials);
  recipe.objective.require = {{.metric = "latency_ms",
                               .comparison = Comparison::less_equal,
                               .bound = 5}};
  return recipe;
}

// Slow where dropout is small: above 0.3 of its range it is fast enough.
double latency(const Trial& trial) { return 8 - 10 * trial.unit[2]; }

void add(Study& study, const Point& point) {
  Trial trial;
  trial.id = std::ssize(study.trials) + 1;
  trial.point = point;
  trial.unit = study.recipe.space.encode(point);
  trial.state = TrialState::complete;
  trial.curve.push_back(
      {1, {{"val_accuracy", 0.5}, {"latency_ms", latency(trial)}}});
  study.trials.push_back(trial);
}

}  // namespace

TEST_CASE(
    "what was learnt of a bounded metric tells where points are feasible") {
  const Recipe recipe = bounded_recipe("random", "fifo", 1, 20);
  Study study = make_study(recipe, 1);
  Feasibility feasibility(recipe);
  CHECK(feasibility.log_chance(
            recipe.space.decode(std::vector{0.5, 0.5, 0.5})) == 0);
  for (int i = 0; i < 12; ++i) {
    const double u = (i + 0.5) / 12;
    add(study, recipe.space.decode(std::vector{u, std::fmod(5 * u, 1.0),
                                               std::fmod(7 * u, 1.0)}));
  }
  feasibility.update(study);
  const auto chance = [&](double dropout) {
    return std::exp(feasibility.log_chance(
        recipe.space.decode(std::vector{0.4, 0.6, dropout})));
  };
  CHECK(chance(0.9) > 0.95);
  CHECK(chance(0.05) < 0.05);
  CHECK(Feasibility(cube_recipe("random", "fifo", 1, 1)).empty());
}

TEST_CASE("samplers that model look where points are feasible") {
  for (const std::string sampler : {"plain-gp", "gp"}) {
    CAPTURE(sampler);
    const Recipe recipe = bounded_recipe(sampler, "fifo", 3, 0);
    Study study = make_study(recipe, 1);
    const Tuner tuner = make_tuner(recipe, 1);
    int feasible = 0;
    for (int i = 0; i < 24; ++i) {
      const auto proposal = tuner.sampler->propose(study, ++study.decisions);
      REQUIRE(proposal);
      add(study, proposal->point);
      Trial& trial = study.trials.back();
      // Best where it is slowest.
      trial.curve[0].metrics["val_accuracy"] = 0.9 - 0.5 * trial.unit[2];
      trial.curve[0].last = true;
      // The best feasible points are at the bound: a hair beyond it is near.
      if (i >= 12) feasible += latency(trial) <= 5.5 ? 1 : 0;
    }
    CHECK(feasible >= 9);
    const auto leader = incumbent(study);
    REQUIRE(leader != nullptr);
    CHECK(latency(*leader) <= 5);
  }
}
