// What every sampler promises, run over every kind of the factory's table.
#include <set>

#include "tuner/simulation.h"
#include <doctest/doctest.h>

#include "dtune/tuner/factory.h"

using namespace dtune;           // NOLINT(google-build-using-namespace)
using namespace dtune::testing;  // NOLINT(google-build-using-namespace)

namespace {

// Proposes `count` points, each becoming a pending trial.
std::vector<Point> propose(Study& study, Sampler& sampler, int count) {
  std::vector<Point> points;
  for (int i = 0; i < count; ++i) {
    const auto proposal = sampler.propose(study, ++study.decisions);
    if (!proposal) break;
    CHECK_FALSE(proposal->why.empty());
    Trial trial;
    trial.id = std::ssize(study.trials) + 1;
    trial.point = proposal->point;
    study.trials.push_back(trial);
    points.push_back(proposal->point);
  }
  return points;
}

std::vector<Point> propose(const Recipe& recipe, int count) {
  Study study = make_study(recipe, 1);
  const auto sampler = make_sampler(recipe);
  return propose(study, *sampler, count);
}

Parameter boolean(const std::string& name) {
  Parameter parameter;
  parameter.name = name;
  parameter.kind = ParameterKind::boolean;
  return parameter;
}

Parameter words(const std::string& name, std::vector<Value> choices) {
  Parameter parameter;
  parameter.name = name;
  parameter.kind = ParameterKind::categorical;
  parameter.choices = std::move(choices);
  return parameter;
}

// optimizer, momentum (only with sgd), nesterov (only with momentum).
SearchSpace discrete_space(std::vector<std::string> constraints = {}) {
  Parameter momentum;
  momentum.name = "momentum";
  momentum.low = 0;
  momentum.high = 0.9;
  momentum.quantum = 0.3;
  momentum.when = "optimizer == 'sgd'";
  Parameter nesterov = boolean("nesterov");
  nesterov.when = "momentum > 0";
  return SearchSpace(
      {words("optimizer", {Value("sgd"), Value("adam"), Value("adamw")}),
       momentum, nesterov},
      std::move(constraints));
}

}  // namespace

TEST_CASE("a sampler proposes valid points and none twice") {
  for (const NamedKind& kind : sampler_kinds()) {
    CAPTURE(kind.name);
    const Recipe recipe = cube_recipe(kind.name, "fifo", 3, 0);
    const std::vector<Point> points = propose(recipe, 100);
    CHECK(points.size() == 100);
    for (const Point& point : points) {
      CHECK(recipe.space.reason_invalid(point) == "");
    }
    CHECK(std::set<Point>(points.begin(), points.end()).size() == 100);
  }
}

TEST_CASE("a sampler proposes the same points for the same seed") {
  for (const NamedKind& kind : sampler_kinds()) {
    CAPTURE(kind.name);
    const auto first = propose(cube_recipe(kind.name, "fifo", 3, 0), 30);
    CHECK(first == propose(cube_recipe(kind.name, "fifo", 3, 0), 30));
    CHECK(first != propose(cube_recipe(kind.name, "fifo", 4, 0), 30));
  }
}

TEST_CASE("a sampler resumed in another process goes on as if never stopped") {
  for (const NamedKind& kind : sampler_kinds()) {
    CAPTURE(kind.name);
    const Recipe recipe = cube_recipe(kind.name, "fifo", 8, 0);
    const auto whole = propose(recipe, 20);
    Study study = make_study(recipe, 1);
    propose(study, *make_sampler(recipe), 11);
    CHECK(propose(study, *make_sampler(recipe), 9) ==
          std::vector<Point>(whole.begin() + 11, whole.end()));
  }
}

TEST_CASE("one sampler object may be asked about several studies in turn") {
  for (const NamedKind& kind : sampler_kinds()) {
    CAPTURE(kind.name);
    const Recipe recipe = cube_recipe(kind.name, "fifo", 8, 0);
    const auto sampler = make_sampler(recipe);
    Study longer = make_study(recipe, 1);
    const auto points = propose(longer, *sampler, 10);
    Study fresh = make_study(recipe, 1);
    CHECK(propose(fresh, *sampler, 10) == points);
  }
}

TEST_CASE("a sampler satisfies the constraints") {
  for (const NamedKind& kind : sampler_kinds()) {
    CAPTURE(kind.name);
    Recipe recipe = cube_recipe(kind.name, "fifo", 5, 0);
    recipe.space =
        SearchSpace(cube(), {"log10(lr) + log10(l2) < -5", "dropout < 0.4"});
    const std::vector<Point> points = propose(recipe, 20);
    CHECK(points.size() == 20);
    for (const Point& point : points) CHECK(recipe.space.satisfies(point));
  }
}

TEST_CASE("a sampler proposes every point of a small space, then none") {
  for (const NamedKind& kind : sampler_kinds()) {
    CAPTURE(kind.name);
    Recipe recipe = cube_recipe(kind.name, "fifo", 5, 0);
    recipe.space = discrete_space();
    // adam, adamw, sgd without momentum, sgd with 3 momenta x 2.
    CHECK(propose(recipe, 100).size() == 2 + 1 + 6);
    recipe.space = discrete_space({"not nesterov or momentum == 0.9"});
    CHECK(propose(recipe, 100).size() == 2 + 1 + 3 + 1);
  }
}

TEST_CASE("a sampler with nothing to choose proposes the one point") {
  for (const NamedKind& kind : sampler_kinds()) {
    CAPTURE(kind.name);
    Recipe recipe = cube_recipe(kind.name, "fifo", 5, 0);
    recipe.space = SearchSpace();
    CHECK(propose(recipe, 3) == std::vector<Point>{Point()});
  }
}

TEST_CASE("a sampler gives up where the constraints leave nothing") {
  for (const NamedKind& kind : sampler_kinds()) {
    CAPTURE(kind.name);
    Recipe recipe = cube_recipe(kind.name, "fifo", 5, 0);
    recipe.space = SearchSpace(cube(), {"lr > 1"});
    CHECK(propose(recipe, 3).empty());
  }
}

TEST_CASE("a sampler that follows priors proposes the prior itself first") {
  for (const std::string kind : {"sobol", "halton", "random"}) {
    CAPTURE(kind);
    Recipe recipe = cube_recipe(kind, "fifo", 5, 0);
    std::vector<Parameter> parameters = cube();
    parameters[0].prior = 0.01;
    parameters[2].prior = 0.25;
    recipe.space = SearchSpace(parameters);
    const auto points = propose(recipe, 64);
    CHECK(points[0].at("lr") == Value(0.01));
    CHECK(points[0].at("dropout") == Value(0.25));
    CHECK(std::set<Point>(points.begin(), points.end()).size() == 64);
  }
}

TEST_CASE("a prior that breaks a constraint is not proposed") {
  Recipe recipe = cube_recipe("sobol", "fifo", 5, 0);
  std::vector<Parameter> parameters = cube();
  parameters[0].prior = 0.01;
  recipe.space = SearchSpace(parameters, {"lr < 0.005"});
  for (const Point& point : propose(recipe, 16)) {
    CHECK(*as_number(point.at("lr")) < 0.005);
  }
}
