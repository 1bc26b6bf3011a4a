#include <set>

#include "tuner/simulation.h"
#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/tuner/factory.h"

using namespace dtune;           // NOLINT(google-build-using-namespace)
using namespace dtune::testing;  // NOLINT(google-build-using-namespace)

namespace {

Parameter batch_size() {
  Parameter parameter;
  parameter.name = "batch_size";
  parameter.kind = ParameterKind::integer;
  parameter.low = 16;
  parameter.high = 64;
  parameter.quantum = 16;
  return parameter;
}

Recipe grid_recipe(std::vector<Parameter> parameters,
                   std::map<std::string, Value> options) {
  Recipe recipe;
  recipe.space = SearchSpace(std::move(parameters));
  recipe.sampler = {"grid", std::move(options)};
  return recipe;
}

void add_trial(Study& study, const Point& point) {
  Trial trial;
  trial.id = std::ssize(study.trials) + 1;
  trial.point = point;
  study.trials.push_back(trial);
}

std::vector<Point> all_points(Study& study) {
  const auto sampler = make_sampler(study.recipe);
  std::vector<Point> points;
  while (auto proposal = sampler->propose(study, 1)) {
    add_trial(study, proposal->point);
    points.push_back(proposal->point);
  }
  return points;
}

std::vector<Point> all_points(const Recipe& recipe) {
  Study study = make_study(recipe, 1);
  return all_points(study);
}

}  // namespace

TEST_CASE("an ordered grid changes the first parameter fastest") {
  const auto points = all_points(
      grid_recipe({batch_size(), cube()[2]},
                  {{"points", int64_t{3}}, {"order", Value("ordered")}}));
  REQUIRE(points.size() == 9);
  const std::vector<int64_t> batches = {16, 48, 64};
  const std::vector<double> dropouts = {0, 0.3, 0.6};
  for (size_t i = 0; i < 9; ++i) {
    CHECK(points[i].at("batch_size") == Value(batches[i % 3]));
    CHECK(points[i].at("dropout") == Value(dropouts[i / 3]));
  }
}

TEST_CASE("grid values of a log range are even in the logarithm") {
  Parameter l2 = cube()[1];
  const auto points = all_points(
      grid_recipe({l2}, {{"points", int64_t{5}}, {"order", Value("ordered")}}));
  REQUIRE(points.size() == 5);
  const std::vector<double> expected = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2};
  for (size_t i = 0; i < 5; ++i)
    CHECK(points[i].at("l2") == Value(expected[i]));
}

TEST_CASE("a grid takes every value where no number of points is given") {
  CHECK(all_points(grid_recipe({batch_size()}, {})).size() == 4);
}

TEST_CASE("a shuffled grid has the same points in another order") {
  const auto shuffled = all_points(
      grid_recipe({batch_size(), cube()[2]}, {{"points", int64_t{4}}}));
  const auto ordered = all_points(
      grid_recipe({batch_size(), cube()[2]},
                  {{"points", int64_t{4}}, {"order", Value("ordered")}}));
  CHECK(shuffled != ordered);
  CHECK(std::set<Point>(shuffled.begin(), shuffled.end()) ==
        std::set<Point>(ordered.begin(), ordered.end()));
}

TEST_CASE("a grid proposes again what a deleted trial covered") {
  Study study = make_study(grid_recipe({batch_size()}, {}), 1);
  const auto points = all_points(study);
  study.trials.erase(study.trials.begin() + 1);
  CHECK(all_points(study) == std::vector<Point>{points[1]});
}

TEST_CASE("a grid over reals needs a number of points") {
  CHECK_THROWS_WITH_AS(
      make_sampler(grid_recipe(cube(), {})),
      "sampler.points: the grid needs a number of values for the real "
      "parameter 'lr' (write points: 5, or give the parameter a step)",
      Error);
}

TEST_CASE("a grid that is too large is refused") {
  CHECK_THROWS_WITH_AS(
      make_sampler(grid_recipe(cube(), {{"points", int64_t{101}}})),
      "sampler: the grid has more than 1000000 points (write fewer points:, or "
      "use sobol)",
      Error);
  Parameter seed = batch_size();
  seed.high = 16 + 16.0 * (1 << 24);
  CHECK_THROWS_AS(make_sampler(grid_recipe({seed}, {})), Error);
}
