#include "dtune/surrogate/gaussian_process.h"

#include <cmath>

#include <doctest/doctest.h>

#include "dtune/base/random.h"
#include "dtune/surrogate/expected_improvement.h"

using namespace dtune;  // NOLINT(google-build-using-namespace)

namespace {

// sin(4 x0) + 2 [x2 == 0.25] at random points; x1 says nothing.
GaussianProcess fitted(int n) {
  Rng rng(3);
  Eigen::MatrixXd x(3, n);
  Eigen::VectorXd y(n);
  for (int i = 0; i < n; ++i) {
    x.col(i) << rng.uniform(), rng.uniform(), rng.below(2) == 0 ? 0.25 : 0.75;
    y[i] = std::sin(4 * x(0, i)) + (x(2, i) < 0.5 ? 2 : 0);
  }
  GaussianProcess process({false, false, true});
  process.fit(x, y);
  return process;
}

}  // namespace

TEST_CASE("a fitted process predicts a smooth function and what matters") {
  const GaussianProcess process = fitted(40);
  for (const double u : {0.1, 0.5, 0.9}) {
    const GpPrediction p = process.predict(Eigen::Vector3d(u, 0.5, 0.25));
    CHECK(p.mean == doctest::Approx(std::sin(4 * u) + 2).epsilon(0.05));
  }
  const Eigen::VectorXd lengths = process.length_scales();
  CHECK(lengths[1] > 3 * lengths[0]);
  CHECK(process.noise() < 0.1);
}

TEST_CASE("slopes of a prediction are its derivatives") {
  const GaussianProcess process = fitted(15);
  const Eigen::Vector3d at(0.37, 0.61, 0.75);
  const GpPrediction p = process.predict(at, true);
  constexpr double kStep = 1e-5;
  for (int i = 0; i < 2; ++i) {
    Eigen::Vector3d above = at;
    Eigen::Vector3d below = at;
    above[i] += kStep;
    below[i] -= kStep;
    const GpPrediction a = process.predict(above);
    const GpPrediction b = process.predict(below);
    CHECK(p.mean_slope[i] ==
          doctest::Approx((a.mean - b.mean) / (2 * kStep)).epsilon(1e-4));
    CHECK(p.deviation_slope[i] ==
          doctest::Approx((a.deviation - b.deviation) / (2 * kStep))
              .epsilon(1e-3));
  }
  CHECK(p.mean_slope[2] == 0);
}

TEST_CASE("a fantasized point keeps the mean and removes the variance") {
  GaussianProcess process = fitted(6);
  const Eigen::Vector3d at(0.95, 0.9, 0.25);
  const GpPrediction before = process.predict(at);
  process.fantasize(at);
  const GpPrediction after = process.predict(at);
  CHECK(after.mean == doctest::Approx(before.mean).epsilon(1e-6));
  CHECK(after.deviation < 0.7 * before.deviation);
}

TEST_CASE("equal values and equal points can be fitted") {
  GaussianProcess process({false});
  process.fit(Eigen::MatrixXd::Constant(1, 8, 0.5),
              Eigen::VectorXd::Constant(8, 3));
  const GpPrediction p = process.predict(Eigen::VectorXd::Constant(1, 0.2));
  CHECK(p.mean == doctest::Approx(3));
  CHECK(std::isfinite(p.deviation));
}

TEST_CASE("the log improvement is the logarithm of the improvement") {
  // E max(0, X) of the standard normal is 1 / sqrt(2 pi).
  CHECK(log_expected_improvement(0, 1, 0).value ==
        doctest::Approx(-0.918938533));
  CHECK(log_expected_improvement(7, 1e-3, 2).value ==
        doctest::Approx(std::log(5)));
}

TEST_CASE("the log improvement stays finite and continuous far below") {
  CHECK(std::isfinite(log_expected_improvement(-1e6, 1, 0).value));
  const double above = log_expected_improvement(-10 + 1e-9, 1, 0).value;
  const double below = log_expected_improvement(-10 - 1e-9, 1, 0).value;
  CHECK(above == doctest::Approx(below).epsilon(1e-6));
  for (const double mean : {-40.0, -12.0, -3.0, 0.5}) {
    const LogImprovement at = log_expected_improvement(mean, 0.8, 0.2);
    constexpr double kStep = 1e-5;
    const double by_mean =
        (log_expected_improvement(mean + kStep, 0.8, 0.2).value -
         log_expected_improvement(mean - kStep, 0.8, 0.2).value) /
        (2 * kStep);
    const double by_deviation =
        (log_expected_improvement(mean, 0.8 + kStep, 0.2).value -
         log_expected_improvement(mean, 0.8 - kStep, 0.2).value) /
        (2 * kStep);
    CHECK(at.by_mean == doctest::Approx(by_mean).epsilon(1e-4));
    CHECK(at.by_deviation == doctest::Approx(by_deviation).epsilon(1e-4));
  }
}
