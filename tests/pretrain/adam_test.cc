#include "dtune/pretrain/adam.h"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

using namespace dtune;  // NOLINT: a test

TEST_CASE("a first step moves every parameter by the rate") {
  Adam adam(3, {.rate = 0.5, .steps = 1000});
  std::vector<float> parameters = {1, 1, 1};
  std::vector<float> gradient = {0.1F, -0.01F, 0};
  adam.step(parameters, gradient);
  CHECK(parameters[0] == doctest::Approx(0.5).epsilon(1e-4));
  CHECK(parameters[1] == doctest::Approx(1.5).epsilon(1e-4));
  CHECK(parameters[2] == 1);
}

TEST_CASE("the rate warms up, and falls to a hundredth") {
  const auto moved = [](int64_t steps, double warm_up) {
    Adam adam(1, {.rate = 1, .warm_up = warm_up, .steps = steps});
    std::vector<double> moves;
    std::vector<float> x = {0};
    for (int64_t i = 0; i < steps; ++i) {
      const float before = x[0];
      std::vector<float> gradient = {1};
      adam.step(x, gradient);
      moves.push_back(double{before} - double{x[0]});
    }
    return moves;
  };
  const std::vector<double> moves = moved(110, 10);
  CHECK(moves[0] == doctest::Approx(0.05).epsilon(1e-3));
  CHECK(moves[9] == doctest::Approx(0.95).epsilon(1e-3));
  CHECK(moves[10] == doctest::Approx(1).epsilon(1e-3));
  CHECK(moves[59] + moves[60] == doctest::Approx(1.01).epsilon(1e-3));
  CHECK(moves[109] == doctest::Approx(0.01).epsilon(0.02));
}

TEST_CASE("long gradients count as if they had the largest norm") {
  const AdamOptions options = {.steps = 1000, .clip = 2};
  Adam clipped(2, options), plain(2, options);
  std::vector<float> a = {0, 0}, b = {0, 0};
  std::vector<float> small = {0.5F, 0.1F}, large = {300, 400};
  std::vector<float> cut = {1.2F, 1.6F}, same = small;
  clipped.step(a, large);
  plain.step(b, cut);
  clipped.step(a, small);
  plain.step(b, same);
  CHECK(a[0] == doctest::Approx(b[0]));
  CHECK(a[1] == doctest::Approx(b[1]));
}

TEST_CASE("a gradient that is not finite changes nothing") {
  Adam adam(2, {.rate = 1, .warm_up = 10, .steps = 100});
  Adam other(2, {.rate = 1, .warm_up = 10, .steps = 100});
  std::vector<float> parameters = {1, 2}, expected = {1, 2};
  std::vector<float> gradient = {1, std::numeric_limits<float>::quiet_NaN()};
  adam.step(parameters, gradient);
  CHECK(parameters == std::vector<float>{1, 2});
  // Nor did it count as a step: the next one is the first.
  std::vector<float> finite = {1, 1}, again = {1, 1};
  adam.step(parameters, finite);
  other.step(expected, again);
  CHECK(parameters == expected);
}

TEST_CASE("a valley is descended to its bottom") {
  Adam adam(2, {.rate = 0.1, .warm_up = 10, .steps = 500});
  std::vector<float> x = {3, -2};
  for (int i = 0; i < 500; ++i) {
    std::vector<float> gradient = {20 * (x[0] - 1), 0.2F * (x[1] - 1)};
    adam.step(x, gradient);
  }
  CHECK(x[0] == doctest::Approx(1).epsilon(0.01));
  CHECK(x[1] == doctest::Approx(1).epsilon(0.05));
}
