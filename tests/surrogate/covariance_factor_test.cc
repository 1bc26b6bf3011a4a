#include "dtune/surrogate/covariance_factor.h"

#include <cmath>
#include <limits>

#include <Eigen/LU>
#include <doctest/doctest.h>

#include "dtune/base/random.h"

using namespace dtune;  // NOLINT(google-build-using-namespace)

namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// exp(-|x - x'|) of points on a line, so close that `gap` tells them apart.
MatrixXd covariance(Index n, double gap, double noise) {
  MatrixXd k(n, n);
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) {
      k(i, j) = std::exp(-gap * std::abs(double(i - j)));
    }
    k(i, i) += noise;
  }
  return k;
}

VectorXd ramp(Index n) { return VectorXd::LinSpaced(n, -1, 1); }

}  // namespace

TEST_CASE("a well conditioned covariance is factorised without help") {
  const MatrixXd k = covariance(40, 0.3, 0.01);
  CovarianceFactor factor;
  factor.compute(k);
  CHECK(factor.jitter() == 0);
  CHECK_FALSE(factor.given_up());
  const VectorXd x = factor.solve(ramp(40));
  CHECK((k * x - ramp(40)).norm() < 1e-10);
  CHECK((factor.inverse() * k - MatrixXd::Identity(40, 40)).norm() < 1e-9);
  CHECK(factor.half_log_determinant() ==
        doctest::Approx(0.5 * std::log(k.determinant())));
}

TEST_CASE("a factor that grew is that of the whole covariance") {
  const MatrixXd k = covariance(30, 0.2, 0.01);
  CovarianceFactor grown;
  for (Index n = 0; n < 30; n += 10) {
    grown.append(k.block(0, n, n, 10), k.block(n, n, 10, 10));
  }
  CovarianceFactor whole;
  whole.compute(k);
  CHECK(grown.size() == 30);
  CHECK((grown.solve(ramp(30)) - whole.solve(ramp(30))).norm() < 1e-10);
}

TEST_CASE("singular and nearly singular covariances have a factor") {
  for (const double gap : {0.0, 1e-18, 1e-15, 1e-12, 1e-9}) {
    for (const double scale : {1e-6, 1.0, 1e9}) {
      CAPTURE(gap);
      CAPTURE(scale);
      const MatrixXd k = scale * covariance(120, gap, 0);
      CovarianceFactor whole;
      whole.compute(k);
      CovarianceFactor grown;
      for (Index n = 0; n < 120; ++n) {
        grown.append(k.block(0, n, n, 1), k.block(n, n, 1, 1));
      }
      for (const CovarianceFactor* factor : {&whole, &grown}) {
        CHECK_FALSE(factor->given_up());
        CHECK(factor->jitter() < 1e-6);
        // What all observations agree on is kept.
        const VectorXd weights = factor->solve(VectorXd::Ones(120));
        CHECK(weights.allFinite());
        CHECK((k.row(60) * weights)(0) == doctest::Approx(1).epsilon(1e-3));
      }
    }
  }
}

TEST_CASE("a covariance that is not finite leaves what was known before") {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity()}) {
    MatrixXd k = covariance(5, 0.5, 0.1);
    k(3, 1) = bad;
    k(3, 3) = bad;
    CovarianceFactor factor;
    CHECK_FALSE(factor.try_compute(k));
    factor.compute(k);
    CHECK(factor.given_up());
    CHECK(factor.size() == 5);
    CHECK(factor.solve(ramp(5)).norm() < 1e-6);
  }
}
