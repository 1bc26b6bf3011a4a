#include "dtune/surrogate/adam.h"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

using namespace dtune;

TEST_CASE("the rate warms up, falls as a cosine and stays at its end") {
  const Adam adam(1,
                  {.rate = 1, .final_share = 0.1, .warm_up = 10, .steps = 110});
  CHECK(adam.rate_at(0) == doctest::Approx(0.1));
  CHECK(adam.rate_at(9) == doctest::Approx(1));
  CHECK(adam.rate_at(10) == doctest::Approx(1));
  CHECK(adam.rate_at(60) == doctest::Approx(0.55));
  CHECK(adam.rate_at(110) == doctest::Approx(0.1));
  CHECK(adam.rate_at(1000) == doctest::Approx(0.1));
}

TEST_CASE("a first step moves every parameter by the rate") {
  Adam adam(3, {.rate = 0.5, .warm_up = 0, .steps = 10});
  std::vector<float> parameters = {1, 1, 1};
  const std::vector<float> gradient = {0.1F, -0.01F, 0};
  CHECK(adam.step(parameters, gradient) ==
        doctest::Approx(std::hypot(0.1, 0.01)));
  CHECK(parameters[0] == doctest::Approx(0.5).epsilon(1e-4));
  CHECK(parameters[1] == doctest::Approx(1.5).epsilon(1e-4));
  CHECK(parameters[2] == 1);
}

TEST_CASE("long gradients count as if they had the largest norm") {
  const AdamOptions options = {.warm_up = 0, .clip = 2};
  Adam clipped(2, options), plain(2, options);
  std::vector<float> a = {0, 0}, b = {0, 0};
  const std::vector<float> small = {0.5F, 0.1F}, large = {300, 400};
  const std::vector<float> cut = {1.2F, 1.6F};
  CHECK(clipped.step(a, large) == doctest::Approx(500));
  plain.step(b, cut);
  clipped.step(a, small);
  plain.step(b, small);
  CHECK(a[0] == doctest::Approx(b[0]));
  CHECK(a[1] == doctest::Approx(b[1]));
}

TEST_CASE("a gradient that is not finite changes nothing") {
  Adam adam(2, {});
  std::vector<float> parameters = {1, 2};
  const std::vector<float> gradient = {1,
                                       std::numeric_limits<float>::quiet_NaN()};
  CHECK(std::isnan(adam.step(parameters, gradient)));
  CHECK(parameters == std::vector<float>{1, 2});
  CHECK(adam.steps_done() == 0);
}

TEST_CASE("a valley is descended to its bottom") {
  Adam adam(2, {.rate = 0.1, .warm_up = 10, .steps = 500});
  std::vector<float> x = {3, -2};
  for (int i = 0; i < 500; ++i) {
    const std::vector<float> gradient = {20 * (x[0] - 1), 0.2F * (x[1] - 1)};
    adam.step(x, gradient);
  }
  CHECK(x[0] == doctest::Approx(1).epsilon(0.01));
  CHECK(x[1] == doctest::Approx(1).epsilon(0.05));
}
