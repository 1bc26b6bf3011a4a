#include "dtune/surrogate/warp.h"

#include <initializer_list>
#include <iterator>

#include <doctest/doctest.h>

using namespace dtune;

namespace {

// From a diverged training to far above what was thought the best.
constexpr double kPlaces[] = {-40, -7, -1, -0.5, -0.01, -1e-6, 0, 1e-6, 0.2, 3};

}  // namespace

TEST_CASE("the best and the median of a study lie at 0 and -1 of the map") {
  const Warp warp{0.9, 0.2};
  CHECK(warp(0.9) == 0);
  CHECK(warp(0.7) == doctest::Approx(-1));
  CHECK(warp.inverse(-1) == doctest::Approx(0.7));
}

TEST_CASE("the map of a metric and its inverse undo each other") {
  const Warp warp{0.87, 0.03};
  for (const double x : kPlaces) {
    CAPTURE(x);
    CHECK(warp_unit_inverse(warp_unit(x)) == doctest::Approx(x));
    const double y = warp.top + warp.scale * x;
    CHECK(warp.inverse(warp(y)) == doctest::Approx(y));
  }
}

TEST_CASE("slope and bend of the map are those of differences") {
  constexpr double kStep = 1e-6;
  for (const double x : {-40.0, -7.0, -1.0, -0.1, 0.2, 3.0}) {
    CAPTURE(x);
    const double slope =
        (warp_unit(x + kStep) - warp_unit(x - kStep)) / (2 * kStep);
    CHECK(warp_unit_slope(x) == doctest::Approx(slope).epsilon(1e-6));
    const double bend = (std::log(warp_unit_slope(x + kStep)) -
                         std::log(warp_unit_slope(x - kStep))) /
                        (2 * kStep);
    CHECK(warp_unit_bend(x) == doctest::Approx(bend).epsilon(1e-6));
  }
  const Warp warp{0.8, 0.1};
  const double slope = (warp(0.7 + kStep) - warp(0.7 - kStep)) / (2 * kStep);
  CHECK(warp.log_slope(0.7) == doctest::Approx(std::log(slope)));
}

TEST_CASE("the map of a metric rises everywhere and has no step at the top") {
  for (size_t i = 1; i < std::size(kPlaces); ++i) {
    CHECK(warp_unit(kPlaces[i]) > warp_unit(kPlaces[i - 1]));
    CHECK(warp_unit_slope(kPlaces[i]) > 0);
  }
  CHECK(warp_unit(1e-12) - warp_unit(-1e-12) < 1e-10);
  CHECK(warp_unit_slope(1e-12) == doctest::Approx(warp_unit_slope(-1e-12)));
}
