#include "dtune/speed/speed_predictor.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

using namespace dtune;  // NOLINT: a test

namespace {

constexpr PredictorKind kAll[] = {PredictorKind::last, PredictorKind::ema,
                                  PredictorKind::lstm};

}  // namespace

TEST_CASE("nothing is predicted before anything was observed") {
  for (const PredictorKind kind : kAll) {
    CHECK(make_speed_predictor(kind)->predict() == 0);
  }
}

TEST_CASE("a constant speed is predicted exactly, by the network nearly") {
  for (const PredictorKind kind : kAll) {
    const auto predictor = make_speed_predictor(kind);
    // The network leans to the low side until it knows how little noise it is.
    double tolerance = kind == PredictorKind::lstm ? 0.05 : 1e-9;
    for (int i = 0; i < 50; ++i) {
      predictor->observe(123.0);
      CHECK(predictor->predict() == doctest::Approx(123.0).epsilon(tolerance));
      if (i == 30) tolerance = std::min(tolerance, 0.01);
    }
  }
}

TEST_CASE("the last speed is predicted by last and approached by ema") {
  const auto last = make_speed_predictor(PredictorKind::last);
  const auto ema = make_speed_predictor(PredictorKind::ema);
  for (const double speed : {100.0, 400.0}) {
    last->observe(speed);
    ema->observe(speed);
  }
  CHECK(last->predict() == 400);
  CHECK(ema->predict() ==
        doctest::Approx(100 * std::pow(4, kEmaWeight)).epsilon(1e-9));
}

TEST_CASE("predictions scale with the speeds") {
  for (const PredictorKind kind : kAll) {
    const auto small = make_speed_predictor(kind);
    const auto large = make_speed_predictor(kind);
    for (int i = 0; i < 60; ++i) {
      const double speed = i % 7 < 3 ? 2.0 : 5.0 + 0.1 * (i % 3);
      small->observe(speed);
      large->observe(1e6 * speed);
      CHECK(large->predict() ==
            doctest::Approx(1e6 * small->predict()).epsilon(1e-6));
    }
  }
}

TEST_CASE("values that are not speeds are ignored") {
  const double bad[] = {0, -1, std::numeric_limits<double>::quiet_NaN(),
                        std::numeric_limits<double>::infinity(),
                        -std::numeric_limits<double>::infinity()};
  for (const PredictorKind kind : kAll) {
    const auto predictor = make_speed_predictor(kind);
    for (const double value : bad) predictor->observe(value);
    CHECK(predictor->predict() == 0);
    predictor->observe(10);
    const double before = predictor->predict();
    for (const double value : bad) predictor->observe(value);
    CHECK(predictor->predict() == before);
  }
}

TEST_CASE("speeds at the ends of what a double holds do not break predictors") {
  for (const PredictorKind kind : kAll) {
    const auto predictor = make_speed_predictor(kind);
    for (int i = 0; i < 40; ++i) {
      predictor->observe(i % 3 == 0 ? 1e308 : i % 3 == 1 ? 5e-324 : 1.0);
      CHECK(is_speed(predictor->predict()));
    }
    for (int i = 0; i < 200; ++i) predictor->observe(50);
    CHECK(predictor->predict() == doctest::Approx(50).epsilon(0.1));
  }
}
