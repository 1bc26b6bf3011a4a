#include "dtune/tuner/cube_map.h"

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

using namespace dtune;  // NOLINT(google-build-using-namespace)

namespace {

Parameter axis(const std::string& key, double low, double high, bool log) {
  Parameter parameter;
  parameter.name = key;
  parameter.key = key;
  parameter.low = low;
  parameter.high = high;
  parameter.log = log;
  return parameter;
}

Parameter optimizers() {
  Parameter parameter;
  parameter.name = parameter.key = "train.optimizer";
  parameter.kind = ParameterKind::categorical;
  parameter.choices = {std::string("sgd"), std::string("adam")};
  return parameter;
}

Recipe recipe_with(std::vector<Parameter> parameters) {
  Recipe recipe;
  recipe.train.lr = 0.03;
  recipe.train.l2 = 0;
  recipe.model.dropout = 0.25;
  recipe.space = SearchSpace(std::move(parameters));
  return recipe;
}

}  // namespace

TEST_CASE("points of the unit cube have their values in physical units") {
  // In another order than the cube's, with a stranger among them.
  const CubeMap map(
      recipe_with({axis("model.dropout", 0.1, 0.5, false), optimizers(),
                   axis("train.l2", 1e-6, 1e-2, true),
                   axis("train.lr", 1e-3, 1e-1, true)}));
  const std::vector<double> unit = {0.25, 0.25, 0.5, 1};  // by sgd
  const CubePoint point = map.cube_point(unit);
  CHECK(point.dropout == doctest::Approx(0.2));
  CHECK(point.log10_l2 == doctest::Approx(-4));
  CHECK(point.log10_lr == doctest::Approx(-1));
}

TEST_CASE("a linear learning rate and a logarithmic dropout are read rightly") {
  const CubeMap map(recipe_with(
      {axis("train.lr", 0, 0.2, false), axis("model.dropout", 0.01, 1, true)}));
  const std::vector<double> middle = {0.5, 0.5};
  CHECK(map.cube_point(middle).log10_lr == doctest::Approx(-1));
  CHECK(map.cube_point(middle).dropout == doctest::Approx(0.1));
  const std::vector<double> low = {0, 0};
  CHECK(std::isfinite(map.cube_point(low).log10_lr));
}

TEST_CASE("choices and quantised numbers have their physical places") {
  Parameter choice = axis("train.lr", 0, 1, false);
  choice.kind = ParameterKind::categorical;
  choice.choices = {0.001, int64_t{1}, 0.1};
  Parameter steps = axis("model.dropout", 0, 0.6, false);
  steps.quantum = 0.2;
  const CubeMap map(recipe_with({choice, steps}));
  const SearchSpace space({choice, steps});
  const Point points[] = {{{"train.lr", 0.001}, {"model.dropout", 0.2}},
                          {{"train.lr", int64_t{1}}, {"model.dropout", 0.6}},
                          {{"train.lr", 0.1}, {"model.dropout", 0.0}}};
  for (const Point& point : points) {
    const std::vector<double> unit = space.encode(point);
    const CubePoint at = map.cube_point(unit);
    CHECK(at.log10_lr ==
          doctest::Approx(std::log10(*as_number(point.at("train.lr")))));
    CHECK(at.dropout == doctest::Approx(*as_number(point.at("model.dropout"))));
    CHECK(map.unit(at, {0.5, 0.5}) == unit);
  }
  // Between cells a place is that of the nearest one.
  CHECK(map.cube_point(std::vector<double>{0.2, 0.36}).dropout ==
        doctest::Approx(0.2));
  CHECK(space.decode(map.unit({-1.2, -4, 0.45}, {0.5, 0.5})) ==
        Point{{"train.lr", 0.1}, {"model.dropout", 0.4}});
}

TEST_CASE("choices of numbers in order are numbers to the model") {
  Parameter choice = axis("train.lr", 0, 1, false);
  choice.kind = ParameterKind::categorical;
  choice.choices = {0.001, 0.01, 0.1};
  CHECK(is_ordered_choice(choice));
  choice.choices = {0.1, 0.01};
  CHECK(is_ordered_choice(choice));
  choice.choices = {0.1, 0.01, 0.05};
  CHECK_FALSE(is_ordered_choice(choice));
  choice.choices = {0.1, std::string("auto")};
  CHECK_FALSE(is_ordered_choice(choice));
  CHECK_FALSE(is_ordered_choice(axis("train.lr", 0, 1, false)));
}

TEST_CASE("what is not tuned is as the recipe fixes it") {
  const CubeMap map(recipe_with({optimizers()}));
  const std::vector<double> unit = {0.25};
  const CubePoint point = map.cube_point(unit);
  CHECK(point.log10_lr == doctest::Approx(std::log10(0.03)));
  CHECK(point.log10_l2 <= -6);  // none at all is the least there is
  CHECK(std::isfinite(point.log10_l2));
  CHECK(point.dropout == 0.25);
  CHECK(map.unit(point, unit) == unit);
}

TEST_CASE("points of the cube and of the study are found from each other") {
  for (const bool log : {true, false}) {
    const CubeMap map(
        recipe_with({axis("train.lr", 1e-4, 0.5, log), optimizers(),
                     axis("model.dropout", 0, 0.6, false)}));
    const std::vector<double> unit = {0.37, 0.25, 0.9};
    const std::vector<double> back =
        map.unit(map.cube_point(unit), {0.5, 0.25, 0.5});
    for (size_t i = 0; i < unit.size(); ++i) {
      CHECK(back[i] == doctest::Approx(unit[i]));
    }
  }
}

TEST_CASE("rates of Adam lie where SGD trains as much with larger ones") {
  std::vector<Parameter> parameters = {axis("train.lr", 1e-5, 1e-1, true),
                                       axis("train.l2", 1e-4, 1, true)};
  Recipe recipe = recipe_with(parameters);
  const std::vector<double> unit = {0.5, 0.25};
  CHECK(CubeMap(recipe).cube_point(unit).log10_lr == doctest::Approx(-3));
  recipe.train.optimizer = OptimizerKind::adam;
  const CubePoint adam = CubeMap(recipe).cube_point(unit);
  CHECK(adam.log10_lr == doctest::Approx(-2));
  CHECK(adam.log10_l2 == doctest::Approx(-3));
  recipe.train.optimizer = OptimizerKind::adamw;
  const CubeMap adamw(recipe);
  CHECK(adamw.cube_point(unit).log10_lr == doctest::Approx(-2));
  CHECK(adamw.cube_point(unit).log10_l2 == doctest::Approx(-5));
  const std::vector<double> back = adamw.unit(adamw.cube_point(unit), {0, 0});
  CHECK(back[0] == doctest::Approx(0.5));
  CHECK(back[1] == doctest::Approx(0.25));
}

TEST_CASE("a tuned optimizer places each point by its own") {
  const Recipe recipe =
      recipe_with({axis("train.lr", 1e-5, 1e-1, true), optimizers()});
  const CubeMap map(recipe);
  const double sgd = recipe.space.encode(
      {{"train.lr", 1e-3}, {"train.optimizer", std::string("sgd")}})[1];
  const double adam = recipe.space.encode(
      {{"train.lr", 1e-3}, {"train.optimizer", std::string("adam")}})[1];
  CHECK(map.cube_point(std::vector<double>{0.5, sgd}).log10_lr ==
        doctest::Approx(-3));
  CHECK(map.cube_point(std::vector<double>{0.5, adam}).log10_lr ==
        doctest::Approx(-2));
}

TEST_CASE("points outside of a study's ranges become their ends") {
  const CubeMap map(recipe_with({axis("train.lr", 1e-3, 1e-1, true),
                                 axis("model.dropout", 0, 0.6, false)}));
  CHECK(map.unit({-9, -4, 2}, {0.5, 0.5}) == std::vector<double>{0, 1});
  const auto high = map.unit({3, -4, -1}, {0.5, 0.5});
  CHECK(high[0] == doctest::Approx(1));
  CHECK(high[1] == 0);
}

TEST_CASE("the context has what the recipe says and nothing else") {
  Recipe recipe = recipe_with({});
  recipe.train.batch_size = 64;
  recipe.train.momentum = 0.8;
  CHECK(context_of(recipe).batch_size == 64.0);
  CHECK(context_of(recipe).momentum == 0.8);
  CHECK_FALSE(context_of(recipe).width);
  LayerSpec wide;
  wide.kind = LayerKind::linear;
  wide.channels = 300;
  LayerSpec relu;
  relu.kind = LayerKind::relu;
  recipe.model.layers = {wide, relu, wide};
  CHECK(context_of(recipe).width == 300.0);
  CHECK(context_of(recipe).depth == 2.0);
  recipe.train.optimizer = OptimizerKind::adam;
  CHECK_FALSE(context_of(recipe).momentum);
  recipe.command = CommandSpec{};
  CHECK_FALSE(context_of(recipe).batch_size);
}

TEST_CASE("a parameter is in the cube by its key or by its role") {
  const auto role_of = [](const std::string& key,
                          ParameterRole role = ParameterRole::none) {
    Parameter parameter = axis(key, 0.1, 1, true);
    parameter.role = role;
    return cube_role(parameter);
  };
  CHECK(role_of("train.lr") == ParameterRole::learning_rate);
  CHECK(role_of("train.l2") == ParameterRole::l2);
  CHECK(role_of("model.dropout") == ParameterRole::dropout);
  CHECK(role_of("train.momentum") == ParameterRole::none);
  CHECK(role_of("lr") == ParameterRole::none);
  CHECK(role_of("", ParameterRole::l2) == ParameterRole::l2);
}

TEST_CASE("parameters of a program have their physical places by their roles") {
  Parameter rate = axis("", 1e-4, 1e-1, true);
  rate.name = "eta";
  rate.role = ParameterRole::learning_rate;
  Parameter keep = axis("", 0, 0.5, false);
  keep.name = "drop";
  keep.role = ParameterRole::dropout;
  Recipe recipe = recipe_with({rate, keep});
  recipe.command = CommandSpec{};
  const CubeMap map(recipe);
  const CubePoint point = map.cube_point(std::vector<double>{2.0 / 3, 0.5});
  CHECK(point.log10_lr == doctest::Approx(-2));
  CHECK(point.dropout == doctest::Approx(0.25));
}

TEST_CASE("an ordered choice of words has an order for the model") {
  Parameter size = axis("size", 0, 1, false);
  size.kind = ParameterKind::categorical;
  size.choices = {std::string("tiny"), std::string("small"),
                  std::string("large")};
  CHECK_FALSE(is_ordered_choice(size));
  size.ordered = true;
  CHECK(is_ordered_choice(size));
}
