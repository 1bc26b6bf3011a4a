#include "tuner/model_sampling.h"

#include <algorithm>
#include <cmath>

#include "tuner/simulation.h"
#include <doctest/doctest.h>

#include "dtune/tuner/factory.h"

namespace dtune::testing {
namespace {

Parameter number(const std::string& name, ParameterKind kind, double low,
                 double high) {
  Parameter parameter;
  parameter.name = name;
  parameter.kind = kind;
  parameter.low = low;
  parameter.high = high;
  return parameter;
}

double of(const Point& point, const std::string& name) {
  return as_number(point.at(name)).value();
}

}  // namespace

void run_trials(Study& study, Sampler& sampler, const Function& function,
                int count) {
  for (int i = 0; i < count; ++i) {
    const auto proposal = sampler.propose(study, ++study.decisions);
    REQUIRE(proposal);
    CHECK(study.recipe.space.reason_invalid(proposal->point) == "");
    CHECK_FALSE(proposal->why.empty());
    Trial trial;
    trial.id = std::ssize(study.trials) + 1;
    trial.point = proposal->point;
    trial.unit = study.recipe.space.encode(trial.point);
    trial.state = TrialState::complete;
    StepReport report;
    report.step = 1;
    report.metrics["val_accuracy"] = function(trial.point);
    trial.curve.push_back(report);
    study.trials.push_back(trial);
  }
}

double mean_best(const std::string& sampler, const SearchSpace& space,
                 const Function& function, int count) {
  double sum = 0;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    Recipe recipe = cube_recipe(sampler, "fifo", seed, 0);
    recipe.space = space;
    Study study = make_study(recipe, 1);
    run_trials(study, *make_sampler(recipe), function, count);
    double best = -INFINITY;
    for (const Trial& trial : study.trials) {
      best = std::max(best, function(trial.point));
    }
    sum += best;
  }
  CHECK(std::isfinite(sum));
  return sum / 5;
}

SearchSpace unit_cube(int dimensions) {
  std::vector<Parameter> parameters;
  for (int i = 0; i < dimensions; ++i) {
    parameters.push_back(
        number("x" + std::to_string(i), ParameterKind::real, 0, 1));
  }
  return SearchSpace(parameters);
}

double bowl(const Point& point) {
  double sum = 0;
  for (const auto& [name, value] : point) {
    const double gap = as_number(value).value() - 0.3;
    sum -= gap * gap;
  }
  return sum;
}

SearchSpace mixed_space() {
  Parameter lr = number("lr", ParameterKind::real, 1e-4, 1);
  lr.log = true;
  Parameter dropout = number("dropout", ParameterKind::real, 0, 0.8);
  dropout.quantum = 0.1;
  Parameter optimizer = number("optimizer", ParameterKind::categorical, 0, 1);
  optimizer.choices = {Value("sgd"), Value("adam"), Value("adamw")};
  Parameter momentum = number("momentum", ParameterKind::real, 0, 0.95);
  momentum.when = "optimizer == 'sgd'";
  Parameter nesterov = number("nesterov", ParameterKind::boolean, 0, 1);
  nesterov.when = "momentum > 0";
  return SearchSpace({lr, number("width", ParameterKind::integer, 8, 256),
                      dropout, optimizer, momentum, nesterov},
                     {"lr * width < 20"});
}

double mixed_function(const Point& point) {
  const auto square = [](double x) { return x * x; };
  double value = -square((std::log10(of(point, "lr")) + 2) / 2) -
                 square((of(point, "width") - 100) / 128) -
                 square(of(point, "dropout") - 0.2);
  const bool sgd = point.at("optimizer") == Value("sgd");
  value -= sgd ? square(of(point, "momentum") - 0.9) : 0.4;
  return value;
}

}  // namespace dtune::testing
