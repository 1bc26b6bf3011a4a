#include "dtune/curves/recorded_curves.h"

#include <cmath>

#include <doctest/doctest.h>

using namespace dtune;  // NOLINT: a test

namespace {

// Linear in all of log10 lr, log10 l2 and dropout, and in log epoch.
RecordedCurves planes() {
  RecordedCurves curves;
  curves.task = "planes";
  curves.log10_lr = {-4, -3, -1};
  curves.log10_l2 = {-6, -2};
  curves.dropout = {0, 0.3, 0.8};
  curves.epochs = {1, 2, 8};
  for (const double lr : curves.log10_lr) {
    for (const double l2 : curves.log10_l2) {
      for (const double dropout : curves.dropout) {
        for (const int epoch : curves.epochs) {
          curves.values.push_back(float(0.5 + 0.05 * lr + 0.02 * l2 +
                                        0.1 * dropout +
                                        0.08 * std::log2(epoch)));
        }
      }
    }
  }
  return curves;
}

}  // namespace

TEST_CASE("values between grid points are interpolated in each axis's scale") {
  const RecordedCurves curves = planes();
  CHECK(curves.value({-2, -4, 0.5}, 4) ==
        doctest::Approx(0.5 - 0.1 - 0.08 + 0.05 + 0.16).epsilon(1e-6));
  CHECK(curves.value({-4, -6, 0}, 1) == double{curves.values.front()});
  CHECK(curves.value({-1, -2, 0.8}, 8) ==
        doctest::Approx(double{curves.values.back()}));
}

TEST_CASE("points and epochs beyond the ends are those of the ends") {
  const RecordedCurves curves = planes();
  CHECK(curves.value({5, 0, 2}, 100) == curves.value({-1, -2, 0.8}, 8));
  CHECK(curves.value({-9, -9, -1}, 1) == curves.value({-4, -6, 0}, 1));
}

TEST_CASE("an axis of one value and a single epoch are constants") {
  RecordedCurves curves;
  curves.log10_lr = {-2};
  curves.log10_l2 = {-4};
  curves.dropout = {0, 1};
  curves.epochs = {1};
  curves.values = {0.25f, 0.75f};
  CHECK(curves.value({-7, 3, 0.5}, 9) == doctest::Approx(0.5));
}

TEST_CASE("the best is over all epochs, the median over the ends") {
  RecordedCurves curves;
  curves.log10_lr = {-3, -2, -1};
  curves.log10_l2 = {-4};
  curves.dropout = {0};
  curves.epochs = {1, 2};
  curves.values = {0.9f, 0.1f, 0.2f, 0.5f, 0.3f, 0.6f};
  CHECK(curves.best() == double{0.9f});
  CHECK(curves.median_final() == double{0.5f});
}

TEST_CASE("of several trainings the best is what one names, by the others") {
  RecordedCurves curves;
  curves.task = "line";
  curves.log10_lr = {-6, -5, -4, -3, -2, -1, 0};
  curves.log10_l2 = {-4};
  curves.dropout = {0};
  curves.epochs = {1};
  // The first was lucky beside the hill that both have.
  curves.repeats = {{0.3f, 0.9f, 0.3f, 0.7f, 0.8f, 0.7f, 0.3f},
                    {0.3f, 0.2f, 0.3f, 0.7f, 0.8f, 0.7f, 0.3f}};
  curves.values = {0.3f, 0.55f, 0.3f, 0.7f, 0.8f, 0.7f, 0.3f};
  curves.weigh();
  CHECK(curves.best() == doctest::Approx(0.8));
  CHECK(curves.worth_value(0, {-5, -4, 0}, 1) == doctest::Approx(0.2));
  CHECK(curves.worth_value(1, {-5, -4, 0}, 1) == doctest::Approx(0.9));
  curves.repeats.clear();
  curves.weigh();
  CHECK(curves.worth.empty());
  CHECK(curves.best() == doctest::Approx(0.8));
}

TEST_CASE("a worth is smoothed over L2 and dropout, not over the rate") {
  RecordedCurves curves;
  curves.log10_lr = {-3, -2};
  curves.log10_l2 = {-6, -5, -4};
  curves.dropout = {0, 0.5};
  curves.epochs = {1};
  curves.values.resize(12);
  curves.repeats.assign(3, curves.values);
  curves.repeats[1][2] = 1;  // of the rate .001, L2 1e-5, no dropout
  curves.repeats[2][2] = 0.5;
  curves.weigh();
  REQUIRE(curves.worth.size() == 3);
  const double mean = 0.75;  // of the two others than the first
  const auto worth = [&](double lr, double l2, double dropout) {
    return curves.worth_value(0, {lr, l2, dropout}, 1);
  };
  CHECK(worth(-3, -5, 0) == doctest::Approx(mean / 2 * 2 / 3));
  CHECK(worth(-3, -6, 0) == doctest::Approx(mean / 3 * 2 / 3));
  CHECK(worth(-3, -5, 0.5) == doctest::Approx(mean / 2 / 3));
  CHECK(worth(-2, -5, 0) == 0);
}

TEST_CASE(
    "several trainings are smoothed together, a single one is left alone") {
  RecordedCurves curves;
  curves.log10_lr = {-3, -2};
  curves.log10_l2 = {-6, -5};
  curves.dropout = {0, 0.5};
  curves.epochs = {1};
  curves.values = {0.9F, 0, 0, 0, 0, 0, 0, 0.9F};
  CHECK(curves.smoothed().values == curves.values);
  curves.repeats.assign(2, curves.values);
  const RecordedCurves smooth = curves.smoothed();
  CHECK(smooth.repeats == curves.repeats);
  CHECK(smooth.value({-3, -6, 0}, 1) == doctest::Approx(0.4));
  CHECK(smooth.value({-3, -5, 0}, 1) == doctest::Approx(0.2));
  CHECK(smooth.value({-3, -5, 0.5}, 1) == doctest::Approx(0.1));
  CHECK(smooth.value({-2, -5, 0.5}, 1) == doctest::Approx(0.4));
}
