#include "dtune/surrogate/correction.h"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

using namespace dtune;

namespace {

const Correction kLeaning = {{0.2, 0.5, 0.3}, {-2, 0.5, 3}, {0.3, 1.5, 0.8}};
const Correction kOneSided = {{1, 0, 0}, {0, 0, 0}, {1, 1, 1}};

// The integral of g times the density from `low` to `high`, by the trapezoidal
// rule: its error is far below the tolerances for functions this smooth.
template <typename Function>
double integral(const Correction& c, double low, double high, Function g) {
  constexpr int kSteps = 200000;
  const double width = (high - low) / kSteps;
  double sum = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const double z = low + i * width;
    const double share = i == 0 || i == kSteps ? 0.5 : 1;
    sum += share * width * std::exp(log_density(c, z)) * g(z);
  }
  return sum;
}

}  // namespace

TEST_CASE("mixtures integrate to one, with their mean") {
  for (const Correction& c : {kHeavyTails, kLeaning, kOneSided}) {
    CHECK(integral(c, -80, 80, [](double) { return 1; }) ==
          doctest::Approx(1).epsilon(1e-9));
    CHECK(integral(c, -80, 80, [](double z) { return z; }) ==
          doctest::Approx(mean_of(c)).epsilon(1e-9));
  }
}

TEST_CASE("the upper tail is the integral of the density") {
  for (const Correction& c : {kHeavyTails, kLeaning, kOneSided}) {
    for (const double threshold : {-5.0, -1.0, 0.0, 0.3, 2.0, 6.0}) {
      const double area =
          integral(c, threshold, threshold + 90, [](double) { return 1; });
      CHECK(log_upper_tail(c, threshold) ==
            doctest::Approx(std::log(area)).epsilon(1e-7));
    }
  }
}

TEST_CASE("tails far out are finite and fall") {
  for (const Correction& c : {kHeavyTails, kLeaning, kOneSided}) {
    double last = 0;
    for (double z = -1e6; z < 1e6; z += z < -100 || z > 300 ? 5e4 : 0.5) {
      const double tail = log_upper_tail(c, z);
      REQUIRE(std::isfinite(tail));
      REQUIRE(tail <= last);
      last = tail;
    }
  }
  // ln Q(40), Abramowitz and Stegun 1964, 26.2.12.
  CHECK(log_upper_tail(kOneSided, 40) ==
        doctest::Approx(-804.608442).epsilon(1e-9));
  const double largest = std::numeric_limits<double>::max();
  CHECK(std::isfinite(log_upper_tail(kHeavyTails, largest)));
  CHECK(std::isfinite(log_density(kHeavyTails, largest)));
  CHECK(log_upper_tail(kHeavyTails, -largest) == 0);
}

TEST_CASE("the series of the far tail continues the near one") {
  const double below = log_upper_tail(kOneSided, 25 - 1e-9);
  const double above = log_upper_tail(kOneSided, 25);
  CHECK(above == doctest::Approx(below).epsilon(1e-9));
}
