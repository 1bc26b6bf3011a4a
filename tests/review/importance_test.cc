#include "dtune/review/importance.h"

#include <cmath>

#include <doctest/doctest.h>

#include "dtune/base/random.h"

namespace dtune {
namespace {

Parameter real(const std::string& name, double low, double high, bool log) {
  Parameter parameter;
  parameter.name = name;
  parameter.low = low;
  parameter.high = high;
  parameter.log = log;
  return parameter;
}

// val_accuracy = f(unit) (1 - 0.5 / step), curves of different lengths.
template <class Function>
Study make_study(int trials, Function f) {
  Study study;
  study.horizon = 16;
  study.recipe.space =
      SearchSpace({real("lr", 1e-4, 1, true), real("l2", 1e-6, 1e-2, true),
                   real("dropout", 0, 1, false)});
  Rng rng(7);
  for (int i = 1; i <= trials; ++i) {
    Trial trial;
    trial.id = i;
    const std::vector<double> unit = {rng.uniform(), rng.uniform(),
                                      rng.uniform()};
    trial.point = study.recipe.space.decode(unit);
    const int steps = i % 3 == 0 ? 16 : i % 3 == 1 ? 4 : 2;
    for (int step = 1; step <= steps; ++step) {
      StepReport report;
      report.step = step;
      report.metrics["val_accuracy"] = f(unit) * (1 - 0.5 / step);
      trial.curve.push_back(report);
    }
    study.trials.push_back(trial);
  }
  return study;
}

double share_of(const Importance& importance, const std::string& name) {
  for (const auto& parameter : importance.parameters) {
    if (parameter.name == name) return parameter.share;
  }
  return -1;
}

}  // namespace

TEST_CASE("what matters is told from what does not, and where it is best") {
  const Study study = make_study(120, [](const std::vector<double>& u) {
    return 0.9 - (u[0] - 0.5) * (u[0] - 0.5) - 0.05 * u[2];
  });
  const auto importance = parameter_importance(study);
  REQUIRE(importance);
  CHECK(importance->trials == 120);
  CHECK(importance->parameters[0].name == "lr");
  CHECK(share_of(*importance, "lr") > 0.7);
  CHECK(share_of(*importance, "l2") < 0.08);
  double sum = importance->together;
  for (const auto& parameter : importance->parameters) sum += parameter.share;
  CHECK(sum == doctest::Approx(1).epsilon(0.01));
  // The middle of [1e-4, 1] in the logarithm is 1e-2.
  const double best = std::get<double>(importance->parameters[0].best);
  CHECK(std::abs(std::log10(best) + 2) < 0.8);
}

TEST_CASE("what only two parameters together explain is nobody's own") {
  const Study study = make_study(300, [](const std::vector<double>& u) {
    return (u[0] < 0.5) == (u[1] < 0.5) ? 0.9 : 0.5;
  });
  const auto importance = parameter_importance(study);
  REQUIRE(importance);
  CHECK(importance->together > 0.5);
}

TEST_CASE("too few results, or equal ones, have no importance") {
  const auto one = [](const std::vector<double>&) { return 0.0; };
  CHECK_FALSE(parameter_importance(make_study(40, one)));
  CHECK_FALSE(parameter_importance(Study{}));
  const auto other = [](const std::vector<double>& u) { return u[0]; };
  CHECK_FALSE(parameter_importance(make_study(7, other)));
  Study nan = make_study(40, [](const std::vector<double>&) { return NAN; });
  CHECK_FALSE(parameter_importance(nan));
}

TEST_CASE("importance is the same every time") {
  const Study study = make_study(
      30, [](const std::vector<double>& u) { return u[0] + 0.1 * u[1]; });
  const auto once = parameter_importance(study);
  const auto again = parameter_importance(study);
  REQUIRE(once);
  CHECK(once->parameters[0].share == again->parameters[0].share);
  CHECK(once->together == again->together);
}

}  // namespace dtune
