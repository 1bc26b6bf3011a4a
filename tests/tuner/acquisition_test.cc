#include "dtune/tuner/acquisition.h"

#include <cmath>
#include <set>

#include <doctest/doctest.h>

using namespace dtune;  // NOLINT(google-build-using-namespace)

TEST_CASE("a decision's horizon and ambition depend on its number alone") {
  const Ambition a = draw_ambition(3, 17, 51);
  const Ambition b = draw_ambition(3, 17, 51);
  CHECK(a.horizon == b.horizon);
  CHECK(a.share == b.share);
  CHECK(draw_ambition(4, 17, 51).share != a.share);
  CHECK(draw_ambition(3, 18, 51).share != a.share);
}

TEST_CASE("horizons are drawn evenly and ambitions in the logarithm") {
  std::set<int> horizons;
  double sum = 0;
  double logarithms = 0;
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    const Ambition a = draw_ambition(1, i, 12);
    horizons.insert(a.horizon);
    sum += a.horizon;
    REQUIRE(a.share >= 1e-4);
    REQUIRE(a.share <= 0.1);
    logarithms += std::log10(a.share);
  }
  CHECK(horizons.size() == 12);
  CHECK(*horizons.begin() == 1);
  CHECK(*horizons.rbegin() == 12);
  CHECK(sum / kDraws == doctest::Approx(6.5).epsilon(0.05));
  CHECK(logarithms / kDraws == doctest::Approx(-2.5).epsilon(0.05));
}

TEST_CASE("a study of one step looks one step ahead") {
  for (int i = 0; i < 20; ++i) CHECK(draw_ambition(0, i, 1).horizon == 1);
}
