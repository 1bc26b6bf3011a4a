#include "dtune/tuner/prior.h"

#include <cmath>

#include "tuner/simulation.h"
#include <doctest/doctest.h>

#include "dtune/base/random.h"

using namespace dtune;           // NOLINT(google-build-using-namespace)
using namespace dtune::testing;  // NOLINT(google-build-using-namespace)

namespace {

Parameter optimizer() {
  Parameter parameter;
  parameter.name = "optimizer";
  parameter.kind = ParameterKind::categorical;
  parameter.choices = {Value("sgd"), Value("adam"), Value("adamw")};
  parameter.prior = Value("adam");
  return parameter;
}

Parameter prior_lr(Confidence confidence) {
  Parameter lr = cube()[0];
  lr.prior = 0.02;
  lr.confidence = confidence;
  return lr;
}

}  // namespace

TEST_CASE("without priors nothing is warped") {
  const Prior prior{SearchSpace(cube())};
  std::vector<double> unit = {0.1, 0.5, 0.9};
  prior.warp(unit);
  CHECK(prior.empty());
  CHECK(unit == std::vector{0.1, 0.5, 0.9});
  CHECK(prior.log_density(unit) == 0);
}

TEST_CASE("the density of a prior integrates to one") {
  for (const Confidence confidence :
       {Confidence::low, Confidence::medium, Confidence::high}) {
    for (const Parameter& parameter : {prior_lr(confidence), optimizer()}) {
      const Prior prior{SearchSpace({parameter})};
      double sum = 0;
      constexpr int kCells = 3000;  // a multiple of the three words
      for (int i = 0; i < kCells; ++i) {
        sum += std::exp(prior.log_density(std::vector{(i + 0.5) / kCells}));
      }
      // The midpoint rule's error of a smooth density: below 1e-6.
      CHECK(sum / kCells == doctest::Approx(1).epsilon(1e-6));
    }
  }
}

TEST_CASE("warped points have the density that the prior states") {
  const Prior prior{SearchSpace({prior_lr(Confidence::high)})};
  for (int i = 1; i < 50; ++i) {
    const double h = 1e-5;
    std::vector<double> low = {i / 50.0};
    std::vector<double> high = {i / 50.0 + h};
    prior.warp(low);
    prior.warp(high);
    const double density = h / (high[0] - low[0]);
    CHECK(std::log(density) ==
          doctest::Approx(prior.log_density(low)).epsilon(1e-3).scale(1));
  }
}

TEST_CASE("more confidence brings points nearer to the prior") {
  double before = 1;
  for (const Confidence confidence :
       {Confidence::low, Confidence::medium, Confidence::high}) {
    const SearchSpace space({prior_lr(confidence)});
    const Prior prior(space);
    const double mode = space.encode({{"lr", 0.02}})[0];
    double distance = 0;
    for (int i = 0; i < 1000; ++i) {
      std::vector<double> unit = {(i + 0.5) / 1000};
      prior.warp(unit);
      distance += std::abs(unit[0] - mode) / 1000;
    }
    CHECK(distance < before * 0.9);
    before = distance;
  }
}

TEST_CASE("a prior never closes a region off") {
  const Prior prior{SearchSpace({prior_lr(Confidence::high)})};
  for (const double edge : {0.0, 1 - 0x1p-53}) {
    std::vector<double> unit = {edge};
    prior.warp(unit);
    CHECK(unit[0] == doctest::Approx(edge).epsilon(1e-12));
    CHECK(prior.log_density(unit) >= std::log(0.2) - 1e-12);
  }
}

TEST_CASE("a word that has the prior comes more often") {
  const SearchSpace space({optimizer()});
  const Prior prior(space);
  int adam = 0;
  for (int i = 0; i < 3000; ++i) {
    std::vector<double> unit = {(i + 0.5) / 3000};
    prior.warp(unit);
    if (space.decode(unit).at("optimizer") == Value("adam")) ++adam;
  }
  // 0.2 / 3 + 0.8 * 4 / 6, and one sample of rounding.
  CHECK(adam == doctest::Approx(3000 * 0.6).epsilon(0.001));
}

TEST_CASE("a single word may have a prior") {
  Parameter only = optimizer();
  only.choices = {Value("adam")};
  const Prior prior{SearchSpace({only})};
  std::vector<double> unit = {0.7};
  prior.warp(unit);
  CHECK(unit[0] == doctest::Approx(0.7));
  CHECK(prior.log_density(unit) == doctest::Approx(0));
}
