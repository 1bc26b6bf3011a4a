#include "dtune/parameter_server/ps_rules.h"

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

using namespace dtune;

TEST_CASE("the learning rate for staleness follows the papers") {
  using enum StalenessRule;
  CHECK(staleness_factor(delay_adaptive, 0, 4) == 1);
  CHECK(staleness_factor(delay_adaptive, 4, 4) == 1);
  CHECK(staleness_factor(delay_adaptive, 5, 4) == doctest::Approx(0.8));
  CHECK(staleness_factor(delay_adaptive, 16, 4) == doctest::Approx(0.25));
  CHECK(staleness_factor(inverse, 0, 4) == 1);
  CHECK(staleness_factor(inverse, 1, 4) == 1);
  CHECK(staleness_factor(inverse, 5, 4) == doctest::Approx(0.2));
  CHECK(staleness_factor(none, 100, 4) == 1);
}

TEST_CASE("gradients are dropped from twice the ranks on by default") {
  ParallelSpec parallel;
  parallel.ranks = 3;
  CHECK(discard_threshold(parallel) == 6);
  parallel.ps.discard = 1;
  CHECK(discard_threshold(parallel) == 1);
}

TEST_CASE("constant delay compensation adds lambda g g (w - backup)") {
  ParameterServerSpec spec;
  spec.compensation = Compensation::constant;
  std::vector<float> g = {0.5F, -2};
  const std::vector<float> w = {1, 1};
  const std::vector<float> backup = {0.9F, 1.5F};
  compensate(spec, {g, w, backup, {}});
  CHECK(g[0] == doctest::Approx(0.5 + 0.04 * 0.25 * 0.1));
  CHECK(g[1] == doctest::Approx(-2 + 0.04 * 4 * -0.5));
  spec.lambda = 1;
  g = {0.5F, -2};
  compensate(spec, {g, w, backup, {}});
  CHECK(g[0] == doctest::Approx(0.5 + 0.25 * 0.1));
}

TEST_CASE("adaptive delay compensation divides by the root mean square") {
  ParameterServerSpec spec;
  spec.compensation = Compensation::adaptive;
  std::vector<float> square = {0.01F};
  std::vector<float> g = {0.5F};
  const std::vector<float> w = {1};
  const std::vector<float> backup = {0.9F};
  compensate(spec, {g, w, backup, square});
  const double mean = 0.95 * 0.01 + 0.05 * 0.25;
  CHECK(square[0] == doctest::Approx(mean));
  CHECK(g[0] == doctest::Approx(0.5 + 2 / std::sqrt(mean + 1e-7) * 0.25 * 0.1));
}

TEST_CASE("clipping scales the norm down to its limit and never up") {
  CHECK(clip_scale(0, 100) == 1);
  CHECK(clip_scale(5, 9) == 1);
  CHECK(clip_scale(5, 100) == doctest::Approx(0.5));
  std::vector<float> values(21, 2);
  CHECK(sum_of_squares(values) == doctest::Approx(84));
}
