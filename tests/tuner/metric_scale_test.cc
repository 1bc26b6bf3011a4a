#include "dtune/tuner/metric_scale.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

using namespace dtune;  // NOLINT(google-build-using-namespace)

namespace {

const ObjectiveSpec kAccuracy = {"val_accuracy", Goal::maximize};
const ObjectiveSpec kLoss = {"val_loss", Goal::minimize};
const ObjectiveSpec kReward = {"reward", Goal::maximize};

}  // namespace

TEST_CASE("an accuracy is taken as it is") {
  const MetricScale scale(kAccuracy, std::vector<double>{0, 0.3, 1});
  CHECK(scale.identity());
  CHECK(scale.to_model(0.42) == 0.42);
  CHECK(scale.to_metric(0.42) == 0.42);
  CHECK(scale.covers(1));
  CHECK_FALSE(scale.covers(1.01));
  CHECK_FALSE(scale.covers(-0.01));
  CHECK(MetricScale(kAccuracy, {}).identity());
}

TEST_CASE("the best and the median of any other metric land at .87 and .75") {
  const std::vector<std::vector<double>> studies = {
      {-0.2, -0.5, -2.3},                // losses
      {-2e7, 15, 300, 40, -3},           // rewards
      {-1e308, -1e308, 1e308},           // at the end of doubles
      {1e-200, 2e-200, -5e-200, 0, -1},  // and next to nothing
  };
  for (const auto& values : studies) {
    const MetricScale scale(kReward, values);
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    CAPTURE(sorted.back());
    CHECK_FALSE(scale.identity());
    CHECK(scale.to_model(sorted.back()) == doctest::Approx(0.87));
    for (const double value : values) {
      CHECK(std::isfinite(scale.to_model(value)));
    }
    const double best = std::abs(sorted.back());
    if (best < 1e-100 || best > 1e300) continue;  // differences are no doubles
    CHECK(scale.to_model(sorted[sorted.size() / 2]) == doctest::Approx(0.75));
  }
  CHECK_FALSE(MetricScale(kLoss, std::vector<double>{-0.5}).identity());
  // A minimized metric is never an accuracy, whatever its values.
  CHECK_FALSE(MetricScale(kLoss, std::vector<double>{0.5, 0.6}).identity());
}

TEST_CASE("a larger metric is larger to the model, and found again in it") {
  const MetricScale scale(kLoss,
                          std::vector<double>{-3, -0.4, -0.9, -0.6, -0.5});
  double before = -HUGE_VAL;
  for (const double value : {-4.0, -1.0, -0.45, -0.4, -0.3, 1.0}) {
    CHECK(scale.to_model(value) > before);
    before = scale.to_model(value);
    CHECK(scale.to_metric(before) == doctest::Approx(value));
  }
}

TEST_CASE("a diverged loss is cut and does not set the scale") {
  const std::vector<double> values = {-1e30, -0.5, -0.4, -0.6, -1e12};
  const MetricScale scale(kLoss, values);
  CHECK(scale.to_model(-1e30) == scale.to_model(-1e12));
  CHECK(scale.to_model(-1e12) > -4);
  CHECK(scale.to_model(-0.4) - scale.to_model(-0.5) > 0.05);
}

TEST_CASE("one value and equal values have a scale") {
  for (const double value : {-5.0, 0.0, 1e9}) {
    for (const size_t count : {1, 2, 3, 20}) {
      const MetricScale scale(kLoss, std::vector<double>(count, value));
      CHECK(scale.to_model(value) == doctest::Approx(0.87));
      CHECK(std::isfinite(scale.to_model(value * 0.9)));
    }
  }
}

TEST_CASE("a value far above all others asks for another scale") {
  const MetricScale scale(kReward, std::vector<double>{-5, -5, -5, -5});
  CHECK(scale.covers(-5));
  CHECK(scale.covers(-1e9));
  CHECK_FALSE(scale.covers(0));
  const MetricScale losses(kLoss, std::vector<double>{-0.5, -0.4, -0.3});
  CHECK(losses.covers(-0.25));
  CHECK_FALSE(losses.covers(1e300));
}
