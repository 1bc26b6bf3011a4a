#include "dtune/tuner/curve_smoothing.h"

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "dtune/base/random.h"

using namespace dtune;  // NOLINT(google-build-using-namespace)

namespace {

double rising(int step, double pace) {
  return 0.8 - 0.5 * std::exp(-step / pace);
}

std::vector<CurveReport> curve_of(int steps, double pace, double noise,
                                  Rng& rng) {
  std::vector<CurveReport> curve;
  for (int step = 1; step <= steps; ++step) {
    curve.push_back({step, rising(step, pace) + noise * rng.normal()});
  }
  return curve;
}

// Root mean square errors over curves of different paces.
struct Errors {
  double smoothed = 0;
  double reported = 0;
};

Errors errors(int steps, double noise) {
  constexpr int kCurves = 300;
  Rng rng(1);
  Errors sum;
  for (int i = 0; i < kCurves; ++i) {
    const double pace = 3 + i % 10;
    const double truth = rising(steps, pace);
    const std::vector<CurveReport> curve = curve_of(steps, pace, noise, rng);
    sum.smoothed += std::pow(smoothed_last(curve) - truth, 2);
    sum.reported += std::pow(curve.back().value - truth, 2);
  }
  return {std::sqrt(sum.smoothed / kCurves), std::sqrt(sum.reported / kCurves)};
}

}  // namespace

TEST_CASE("a report is worth more with those before it") {
  for (const double noise : {0.003, 0.01}) {
    CAPTURE(noise);
    const Errors late = errors(51, noise);
    CHECK(late.smoothed < 0.6 * late.reported);
    const Errors middle = errors(22, noise);
    CHECK(middle.smoothed < 0.85 * middle.reported);
    const Errors early = errors(7, noise);
    CHECK(early.smoothed < 1.02 * early.reported);
  }
}

TEST_CASE("a curve without noise stays as it is") {
  for (const int steps : {5, 7, 13, 22, 51, 500}) {
    CAPTURE(steps);
    CHECK(errors(steps, 0).smoothed < 2e-4);
  }
}

TEST_CASE("a last report that is unlike all noise before it stays") {
  Rng rng(2);
  for (const double noise : {0.0, 0.001, 0.003}) {
    CAPTURE(noise);
    std::vector<CurveReport> curve = curve_of(51, 5, noise, rng);
    for (const double jump : {0.05, -0.7}) {
      curve.back().value += jump;
      CHECK(smoothed_last(curve) == curve.back().value);
      curve.back().value -= jump;
    }
  }
}

TEST_CASE("what cannot be told from motion stays") {
  const std::vector<CurveReport> few = {{1, .1}, {2, .5}, {3, .4}, {4, .45}};
  for (size_t n = 1; n <= few.size(); ++n) {
    CHECK(smoothed_last(std::span(few).first(n)) == few[n - 1].value);
  }
  // Too early: of steps up to a third of the last one.
  const std::vector<CurveReport> sparse = {{1, .1}, {2, .2},  {3, .3},
                                           {4, .2}, {50, .4}, {100, .3}};
  CHECK(smoothed_last(sparse) == .3);
  std::vector<CurveReport> level;
  for (int step = 1; step <= 20; ++step) level.push_back({step, .1});
  CHECK(smoothed_last(level) == .1);
  level.push_back({21, .9});
  CHECK(smoothed_last(level) == .9);
}

TEST_CASE("smoothing does not depend on the metric's unit") {
  Rng rng(3);
  const std::vector<CurveReport> curve = curve_of(40, 4, 0.01, rng);
  const double smoothed = smoothed_last(curve);
  CHECK(smoothed != curve.back().value);
  for (const double unit : {-1.0, 1e-250, 1e250}) {
    CAPTURE(unit);
    std::vector<CurveReport> other = curve;
    for (CurveReport& report : other) report.value *= unit;
    CHECK(smoothed_last(other) / unit ==
          doctest::Approx(smoothed).epsilon(1e-9));
  }
  std::vector<CurveReport> vast = curve;
  vast.front().value = 0;
  vast[30].value = -1.7e308;
  vast.back().value = 1.7e308;
  CHECK(smoothed_last(vast) == 1.7e308);
}
