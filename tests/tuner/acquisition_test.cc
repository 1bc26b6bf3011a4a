#include "dtune/tuner/acquisition.h"

#include <set>

#include <doctest/doctest.h>

using namespace dtune;  // NOLINT(google-build-using-namespace)

TEST_CASE("a decision's horizon depends on its number alone") {
  const int a = draw_horizon(3, 17, 1'000'000);
  CHECK(draw_horizon(3, 17, 1'000'000) == a);
  CHECK(draw_horizon(4, 17, 1'000'000) != a);
  CHECK(draw_horizon(3, 18, 1'000'000) != a);
}

TEST_CASE("horizons are drawn evenly") {
  std::set<int> horizons;
  double sum = 0;
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    const int horizon = draw_horizon(1, i, 12);
    horizons.insert(horizon);
    sum += horizon;
  }
  CHECK(horizons.size() == 12);
  CHECK(*horizons.begin() == 1);
  CHECK(*horizons.rbegin() == 12);
  CHECK(sum / kDraws == doctest::Approx(6.5).epsilon(0.05));
}

TEST_CASE("a study of one step looks one step ahead") {
  for (int i = 0; i < 20; ++i) CHECK(draw_horizon(0, i, 1) == 1);
}
