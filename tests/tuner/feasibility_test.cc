#include "dtune/tuner/feasibility.h"

#include <cmath>

#include "tuner/simulation.h"
#include <doctest/doctest.h>

#include "dtune/study/pareto.h"
#include "dtune/tuner/acquisition.h"
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

namespace {

// The area that the front dominates, above an accuracy of 0.3 and below 8 ms.
double hypervolume(const Study& study) {
  double area = 0;
  double slowest = 8;
  for (const TradedOff& one : pareto_front(study)) {  // best accuracy first
    const double accuracy = std::max(one.values[0] - 0.3, 0.0);
    double next = 0;
    for (const TradedOff& other : pareto_front(study)) {
      if (other.values[0] < one.values[0]) {
        next = std::max(next, other.values[0] - 0.3);
      }
    }
    area += std::max(0.0, slowest + one.values[1]) * (accuracy - next);
  }
  return area;
}

// Accuracy and speed pull dropout in opposite directions; the learning rate has
// its best place.
Study search_front(bool traded, const std::string& scheduler, uint64_t seed) {
  Recipe recipe = cube_recipe("plain-gp", scheduler, seed, 0);
  if (traded) {
    recipe.objective.trade_offs = {
        {.metric = "latency_ms", .goal = Goal::minimize}};
  }
  Study study = make_study(recipe, 1);
  const Tuner tuner = make_tuner(recipe, 1);
  for (int i = 0; i < 24; ++i) {
    const Directive d =
        tuner.scheduler->next(study, *tuner.sampler, ++study.decisions, true);
    REQUIRE(d.kind == Directive::Kind::start);
    add(study, d.point);
    Trial& trial = study.trials.back();
    const double off = trial.unit[0] - 0.6;
    trial.curve[0].metrics["val_accuracy"] =
        0.9 - 0.5 * trial.unit[2] - 0.8 * off * off;
    trial.curve[0].last = true;
  }
  study.recipe.objective.trade_offs = {
      {.metric = "latency_ms", .goal = Goal::minimize}};
  return study;
}

}  // namespace

TEST_CASE("a search with a trade-off finds a wider front") {
  for (const std::string scheduler : {"freeze-thaw", "fifo"}) {
    CAPTURE(scheduler);
    double with = 0;
    double without = 0;
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      with += hypervolume(search_front(true, scheduler, seed));
      without += hypervolume(search_front(false, scheduler, seed));
    }
    CHECK_MESSAGE(with > 1.1 * without, with << " against " << without);
  }
}

TEST_CASE("a trial that is the fastest is not held against slower ones") {
  Recipe recipe = cube_recipe("plain-gp", "freeze-thaw", 1, 0);
  recipe.objective.trade_offs = {
      {.metric = "latency_ms", .goal = Goal::minimize}};
  Trial trial;
  trial.curve.push_back({1, {{"val_accuracy", 0.5}, {"latency_ms", 3.0}}});
  const auto bounds = bounds_of(recipe.objective, trial);
  REQUIRE(bounds.size() == 1);
  CHECK(bounds[0].holds(3.0));
  CHECK_FALSE(bounds[0].holds(3.1));
  trial.curve.back().metrics.erase("latency_ms");
  CHECK(bounds_of(recipe.objective, trial).empty());
}

TEST_CASE(
    "half of the decisions are bounded, between the best and the leader") {
  Recipe recipe = cube_recipe("plain-gp", "freeze-thaw", 1, 0);
  Study study = make_study(recipe, 1);
  add(study, recipe.space.decode(std::vector{0.5, 0.5, 0.1}));
  add(study, recipe.space.decode(std::vector{0.5, 0.5, 0.9}));
  study.trials[0].curve[0].metrics["val_accuracy"] = 0.9;
  CHECK(draw_bounds(study, 1).empty());  // no trade-off
  study.recipe.objective.trade_offs = {
      {.metric = "latency_ms", .goal = Goal::minimize}};
  int bounded = 0;
  for (int64_t decision = 1; decision <= 100; ++decision) {
    const auto bounds = draw_bounds(study, decision);
    CHECK(bounds.size() <= 1);
    if (bounds.empty()) continue;
    ++bounded;
    CHECK(bounds[0].bound >= latency(study.trials[1]));
    CHECK(bounds[0].bound <= latency(study.trials[0]));
  }
  CHECK(bounded > 30);
  CHECK(bounded < 70);
}
