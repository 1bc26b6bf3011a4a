#include "dtune/review/recording.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <doctest/doctest.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

Parameter real(const std::string& name, const std::string& key, double low,
               double high, bool log) {
  Parameter parameter;
  parameter.name = name;
  parameter.key = key;
  parameter.low = low;
  parameter.high = high;
  parameter.log = log;
  return parameter;
}

SearchSpace cube() {
  return SearchSpace({real("rate", "train.lr", 1e-3, 1e-1, true),
                      real("dropout", "model.dropout", 0, 0.5, false),
                      real("decay", "train.l2", 1e-5, 1e-3, true)});
}

Study grid_study(const GridAxes& axes, int steps) {
  Study study;
  study.recipe.study = "grid";
  study.recipe.space = cube();
  study.horizon = steps;
  for (const double lr : axes.lr) {
    for (const double dropout : axes.dropout) {
      for (const double l2 : axes.l2) {
        Trial trial;
        trial.id = static_cast<TrialId>(study.trials.size()) + 1;
        trial.point = {{"rate", lr}, {"dropout", dropout}, {"decay", l2}};
        for (int step = 1; step <= steps; ++step) {
          StepReport report;
          report.step = step;
          report.metrics["val_accuracy"] =
              0.1 * step + lr + 100 * l2 + 0.1 * dropout;
          trial.curve.push_back(report);
        }
        study.trials.push_back(trial);
      }
    }
  }
  return study;
}

}  // namespace

TEST_CASE("repeats are kept beside their mean") {
  const GridAxes axes = axes_of_space(cube(), cube_names(cube()), {2, 2, 1});
  RecordingOptions options;
  options.task = "grid";
  options.epochs = {1, 2};
  Study study = grid_study(axes, 2);
  std::vector<Recording> recordings = {record_curves(study, axes, options)};
  for (Trial& trial : study.trials) {
    for (StepReport& report : trial.curve) {
      report.metrics["val_accuracy"] += 0.1;
    }
  }
  recordings.push_back(record_curves(study, axes, options));
  const Recording merged = merge_repeats(recordings);
  REQUIRE(merged.curves.repeats.size() == 2);
  CHECK(merged.curves.repeats[1] == recordings[1].curves.values);
  CHECK(double{merged.curves.values[0]} ==
        doctest::Approx(double{recordings[0].curves.values[0]} + 0.05));
  // What one names as the best is worth what the other one says.
  REQUIRE(merged.curves.worth.size() == 2);
  CHECK(merged.curves.best() < *std::max_element(merged.curves.values.begin(),
                                                 merged.curves.values.end()));
  recordings[1].curves.epochs = {1, 3};
  CHECK_THROWS_WITH_AS(merge_repeats(recordings),
                       doctest::Contains("not repeats of one grid"), Error);
}

TEST_CASE("a space of lr, l2 and dropout spans a cube, even in the logarithm") {
  const SearchSpace space = cube();
  const CubeNames names = cube_names(space);
  CHECK(names.lr == "rate");
  CHECK(names.l2 == "decay");
  const GridAxes axes = axes_of_space(space, names, {3, 2, 1});
  CHECK(axes.lr == std::vector<double>{1e-3, 1e-2, 1e-1});
  CHECK(axes.l2 == std::vector<double>{1e-5, 1e-3});
  CHECK(axes.dropout == std::vector<double>{0.25});
  CHECK(axes.size() == 6);
}

TEST_CASE("other spaces are refused, with what to write") {
  CHECK_THROWS_WITH_AS(
      cube_names(SearchSpace({real("lr", "train.lr", 1e-3, 1, true)})),
      doctest::Contains("the space is made of lr (write space:"), Error);
  const SearchSpace zero({real("lr", "", 1e-3, 1, true),
                          real("l2", "", 0, 1, false),
                          real("dropout", "", 0, 1, false)});
  CHECK_THROWS_WITH_AS(axes_of_space(zero, cube_names(zero), {2, 2, 2}),
                       doctest::Contains("space.l2: reaches 0"), Error);
}

TEST_CASE("the curves of a grid become a cube, what is missing is at chance") {
  const GridAxes axes = axes_of_space(cube(), cube_names(cube()), {3, 2, 2});
  Study study = grid_study(axes, 4);
  study.trials[0].curve.resize(2);  // lr 1e-3, dropout 0, l2 1e-5
  study.trials[1].curve.clear();    // lr 1e-3, dropout 0, l2 1e-3
  study.trials[0].state = study.trials[1].state = TrialState::failed;
  study.trials[0].reason = Reason::crashed;
  study.trials[1].reason = Reason::diverged;
  const GridAxes found = axes_of_trials(study);
  CHECK(found.lr == axes.lr);
  CHECK(found.l2 == axes.l2);
  CHECK(found.dropout == axes.dropout);
  RecordingOptions options;
  options.task = "grid";
  options.epochs = {1, 4};
  options.chance = 0.1;
  const Recording made = record_curves(study, found, options);
  CHECK(made.missing == 1);
  CHECK(made.incomplete == 1);
  CHECK(made.lost == 1);
  const RecordedCurves& curves = made.curves;
  REQUIRE(curves.values.size() == 3 * 2 * 2 * 2);
  CHECK(curves.value({-3, -5, 0}, 1) == doctest::Approx(0.1 + 0.001 + 0.001));
  CHECK(curves.value({-3, -5, 0}, 4) == doctest::Approx(0.1));
  CHECK(curves.value({-3, -3, 0}, 1) == doctest::Approx(0.1));
  CHECK(curves.value({-1, -3, 0.5}, 4) ==
        doctest::Approx(0.4 + 0.1 + 0.1 + 0.05));
}

TEST_CASE(
    "a metric that is not an accuracy, or a study that is not a grid, is "
    "refused") {
  const GridAxes axes = axes_of_space(cube(), cube_names(cube()), {2, 2, 2});
  Study study = grid_study(axes, 2);
  RecordingOptions options;
  options.epochs = {1, 2};
  study.trials[3].curve[1].metrics["val_accuracy"] = 1.5;
  CHECK_THROWS_WITH_AS(record_curves(study, axes, options),
                       doctest::Contains("trial 4: val_accuracy is 1.5"),
                       Error);
  study.recipe.objective.goal = Goal::minimize;
  CHECK_THROWS_AS(record_curves(study, axes, options), Error);
  for (Trial& trial : study.trials) {
    trial.point["rate"] = 0.001 * double(trial.id);
    trial.point["decay"] = 1e-5 * double(trial.id);
  }
  CHECK_THROWS_WITH_AS(axes_of_trials(study),
                       doctest::Contains("the study is not a grid"), Error);
  Study nothing = grid_study(axes, 0);
  CHECK_THROWS_WITH_AS(record_curves(nothing, axes, options),
                       doctest::Contains("nothing to record"), Error);
}

TEST_CASE("many steps are thinned evenly in the logarithm") {
  CHECK(default_epochs(5) == std::vector<int>{1, 2, 3, 4, 5});
  const std::vector<int> thinned = default_epochs(1000);
  CHECK(thinned.size() <= 32);
  CHECK(thinned.front() == 1);
  CHECK(thinned.back() == 1000);
  CHECK(std::is_sorted(thinned.begin(), thinned.end(), std::less_equal<int>()));
}

}  // namespace dtune
