#include "dtune/speed/speed_season.h"

#include <cmath>

#include <doctest/doctest.h>

#include "dtune/base/random.h"
#include "dtune/speed/speed_history.h"

using namespace dtune;  // NOLINT: a test

TEST_CASE("the period of a wave is found through noise") {
  for (const int period : {5, 12, 40, 80}) {
    SpeedSeason season;
    Rng rng(1);
    for (int i = 0; i < 400; ++i) {
      const double wave = i % period < period / 2 ? 0 : -1;
      season.observe(wave + 0.05 * rng.normal());
    }
    CHECK(season.period() == size_t(period));
    const double next = 400 % period < period / 2 ? 0 : -1;
    CHECK(season.predict() == doctest::Approx(next).epsilon(0.2));
  }
}

TEST_CASE("no period is seen in less than three lags") {
  SpeedSeason season;
  for (int i = 0; i < 4; ++i) {
    season.observe(i % 2);
    CHECK(season.period() == 0);
  }
}

TEST_CASE("only ratios of speeds matter in the network's input") {
  SpeedHistory small;
  SpeedHistory large;
  Rng rng(2);
  for (int i = 0; i < 200; ++i) {
    const double speed = 0.1 * rng.normal() - (i % 17 < 5 ? 1 : 0);
    small.observe(speed);
    large.observe(speed + 20);
    const SpeedMoment a = small.moment();
    const SpeedMoment b = large.moment();
    CHECK(b.level - a.level == doctest::Approx(20));
    for (size_t k = 0; k < kSpeedInputs; ++k) {
      CHECK(b.inputs[k] == doctest::Approx(a.inputs[k]).epsilon(1e-6));
      CHECK(std::abs(b.inputs[k]) <= 2);
    }
  }
}
