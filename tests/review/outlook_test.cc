#include "dtune/review/outlook.h"

#include "../report/sample_study.h"
#include <doctest/doctest.h>

namespace dtune {
namespace {

OpenTrial forecast(TrialId trial, double mean, double half) {
  return {trial,
          {{.step = 4, .mean = mean, .low = mean - half, .high = mean + half}}};
}

}  // namespace

TEST_CASE("hopeless trials bring nothing, hopeful ones raise the best") {
  const Study study = test::sample_study();  // the best is 0.9125, horizon 4
  const auto points =
      outlook(study, {forecast(6, 0.5, 0.01), forecast(1, 0.95, 0.001)});
  REQUIRE(points.size() == 3);
  CHECK(points[0].steps == 0);
  CHECK(points[0].mean == doctest::Approx(0.9125));
  // The one that brings more for a step goes first: it has three steps left.
  CHECK(points[1].steps == 3);
  CHECK(points[1].mean == doctest::Approx(0.95).epsilon(0.001));
  CHECK(points[1].low == doctest::Approx(0.95).epsilon(0.002));
  CHECK(points[2].steps == 6);
  CHECK(points[2].mean == doctest::Approx(points[1].mean));
}

TEST_CASE("a normal forecast around the best adds what its upper half holds") {
  const Study study = test::sample_study();
  const double deviation = 0.02;
  const auto points = outlook(study, {forecast(1, 0.9125, 1.6449 * deviation)});
  REQUIRE(points.size() == 2);
  // E[max(X, 0)] of a normal X is its deviation / sqrt(2 pi), less 0.021
  // deviations of what lies above the band.
  CHECK(points[1].mean - 0.9125 ==
        doctest::Approx(deviation * (0.3989 - 0.0209)).epsilon(0.02));
  CHECK(points[1].low == doctest::Approx(0.9125).epsilon(0.001));
  CHECK(points[1].high ==
        doctest::Approx(0.9125 + 1.2816 * deviation).epsilon(0.002));
}

TEST_CASE("a loss is expected to fall") {
  Study study = test::sample_study();
  study.recipe.objective = {"val_loss", Goal::minimize};
  const auto points = outlook(study, {forecast(1, 0.05, 0.001)});
  REQUIRE(points.size() == 2);
  CHECK(points[0].mean == doctest::Approx(0.0875));
  CHECK(points[1].mean == doctest::Approx(0.05).epsilon(0.01));
  CHECK(outlook(study, {}).empty());
}

}  // namespace dtune
