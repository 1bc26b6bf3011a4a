#include "dtune/tuner/step_costs.h"

#include <cmath>
#include <functional>
#include <limits>

#include "tuner/simulation.h"
#include <doctest/doctest.h>

using namespace dtune;           // NOLINT(google-build-using-namespace)
using namespace dtune::testing;  // NOLINT(google-build-using-namespace)

namespace {

using Seconds = std::function<double(const std::vector<double>& unit)>;

Study timed_study(int trials, const Seconds& seconds) {
  Study study = make_study(cube_recipe("sobol", "asha", 1, trials), 9);
  Rng rng(4);
  for (int i = 0; i < trials; ++i) {
    Trial trial;
    trial.id = i + 1;
    trial.unit = {rng.uniform(), rng.uniform(), rng.uniform()};
    for (int step = 1; step <= 2; ++step) {
      StepReport report;
      report.step = step;
      report.seconds = 0.8 * seconds(trial.unit);
      report.checkpoint_seconds = 0.2 * seconds(trial.unit);
      trial.curve.push_back(report);
    }
    study.trials.push_back(trial);
  }
  return study;
}

double relative(const Study& study, const std::vector<double>& unit) {
  return StepCosts(study).log_relative(unit);
}

}  // namespace

TEST_CASE("steps that take longer at one end cost more there") {
  const Study study = timed_study(30, [](const std::vector<double>& unit) {
    return 2 * std::exp(1.5 * unit[1]);
  });
  const double slope =
      relative(study, {0.5, 1, 0.5}) - relative(study, {0.5, 0, 0.5});
  CHECK(slope > 1.0);
  CHECK(slope < 1.6);
  CHECK(std::abs(relative(study, {1, 0.5, 0.5}) -
                 relative(study, {0, 0.5, 0.5})) < 0.15);
}

TEST_CASE("steps on fewer images are cheaper everywhere alike") {
  Study study = timed_study(30, [](const std::vector<double>&) { return 1; });
  CHECK(StepCosts(study).log_share(0, 7) == 0);
  study.recipe.fidelity = {FidelityKind::data_limit, 4};
  study.horizon = 4;
  for (Trial& trial : study.trials) {
    if (trial.unit[0] < 0.5) trial.curve.pop_back();
    for (StepReport& report : trial.curve) {
      report.seconds *= std::exp2(report.step);
      report.checkpoint_seconds *= std::exp2(report.step);
    }
  }
  CHECK(relative(study, {1, 0.5, 0.5}) == 0);
  const StepCosts costs(study);
  CHECK(costs.log_share(0, 1) == doctest::Approx(std::log(0.125)));
  CHECK(costs.log_share(1, 3) == doctest::Approx(std::log(0.75)));
  CHECK(costs.log_share(0, 4) == doctest::Approx(std::log(1.875)));
}

TEST_CASE("the clock's noise and few trials make no difference") {
  const auto noisy = [](const std::vector<double>& unit) {
    return 1 + 0.1 * unit[2];
  };
  CHECK(relative(timed_study(30, noisy), {0, 0, 1}) == 0);
  const auto steep = [](const std::vector<double>& unit) {
    return std::exp(5 * unit[0]);
  };
  CHECK(relative(timed_study(3, steep), {1, 1, 1}) == 0);
  CHECK(relative(timed_study(0, steep), {1, 1, 1}) == 0);
}

TEST_CASE("a deterministic study does not look at the clock") {
  Study study = timed_study(30, [](const std::vector<double>& unit) {
    return std::exp(3 * unit[0]);
  });
  CHECK(relative(study, {1, 0.5, 0.5}) != 0);
  study.recipe.deterministic = true;
  CHECK(relative(study, {1, 0.5, 0.5}) == 0);
}

TEST_CASE("times that were not measured or are not finite are left out") {
  Study study = timed_study(
      30, [](const std::vector<double>& unit) { return std::exp(unit[0]); });
  const double before = relative(study, {1, 0.5, 0.5});
  for (const double seconds : {0.0, std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()}) {
    Trial trial = study.trials.front();
    trial.id = std::ssize(study.trials) + 1;
    trial.curve.front().seconds = seconds;
    trial.curve.back().seconds = seconds;
    trial.curve.front().checkpoint_seconds = 0;
    trial.curve.back().checkpoint_seconds = 0;
    study.trials.push_back(trial);
  }
  CHECK(relative(study, {1, 0.5, 0.5}) == before);
}
