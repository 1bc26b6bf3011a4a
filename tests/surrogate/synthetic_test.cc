#include "dtune/surrogate/synthetic.h"

#include <cmath>

#include "surrogate/tiny_cubes.h"
#include <doctest/doctest.h>

#include "dtune/surrogate/synthetic_curve.h"

using namespace dtune;

TEST_CASE("synthetic curves are bounded, varied and the same for a seed") {
  const SyntheticPrior prior;
  const CubeAxes axes = prior_axes(tiny_curves(1));
  int varied = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const RecordedCurves curves = prior.draw(axes, seed);
    REQUIRE(curves.values.size() == axes.voxels() * curves.epochs.size());
    for (const float y : curves.values) REQUIRE((y >= 0 && y <= 1));
    CHECK(curves.values == prior.draw(axes, seed).values);
    varied += curves.best() > curves.median_final() + 0.02 ? 1 : 0;
  }
  CHECK(varied >= 8);
}

TEST_CASE("a synthetic curve is at 1/precision of its end where it saturates") {
  std::array<double, kCurveNumbers> uniform{};
  uniform.fill(0.5);
  const SyntheticCurve curve = curve_of(uniform, 0.2, 1.0, 0);
  CHECK(curve.end == doctest::Approx(0.6));
  for (size_t basis = 0; basis < SyntheticCurve::kBases; ++basis) {
    SyntheticCurve one = curve;
    one.weight.fill(0);
    one.weight[basis] = 1;
    const double left = 1 - 1 / one.precision[basis];
    CHECK(one.at(one.saturation[basis]) ==
          doctest::Approx(0.2 + 0.4 * left).epsilon(1e-6));
    CHECK(one.at(1e-9) == doctest::Approx(0.2).epsilon(0.05));
  }
}

TEST_CASE("a synthetic curve is finite for the rarest of numbers") {
  for (const double u : {1e-5, 0.5, 1 - 1e-5}) {
    for (const double v : {1e-5, 0.5, 1 - 1e-5}) {
      std::array<double, kCurveNumbers> uniform{};
      for (size_t i = 0; i < uniform.size(); ++i) {
        uniform[i] = i % 2 == 0 ? u : v;
      }
      const SyntheticCurve curve = curve_of(uniform, 0, 1, 0.3);
      for (const double x : {0.02, 0.3, 1.0}) {
        CHECK(std::isfinite(curve.at(x)));
      }
    }
  }
}
