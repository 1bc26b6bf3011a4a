#include "dtune/base/random.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include <doctest/doctest.h>

using namespace dtune;  // NOLINT(google-build-using-namespace)

TEST_CASE("texts hash as FNV-1a says") {
  // Reference values of the FNV authors' test suite (64 bits).
  CHECK(hash_text("") == 0xcbf29ce484222325ULL);
  CHECK(hash_text("a") == 0xaf63dc4c8601ec8cULL);
  CHECK(hash_text("foobar") == 0x85944171f73967e8ULL);
}

TEST_CASE("seeds depend on every part and on their order") {
  CHECK(mix_seed({1, 2, 3}) == mix_seed({1, 2, 3}));
  std::set<uint64_t> seeds = {mix_seed({}),        mix_seed({0}),
                              mix_seed({0, 0}),    mix_seed({1, 2, 3}),
                              mix_seed({3, 2, 1}), mix_seed({1, 2}),
                              mix_seed({1, 2, 4})};
  CHECK(seeds.size() == 7);
}

TEST_CASE("seeds of neighbouring trials have no collisions") {
  std::set<uint64_t> seeds;
  for (uint64_t study = 0; study < 100; ++study) {
    for (uint64_t trial = 0; trial < 1000; ++trial) {
      seeds.insert(mix_seed({study, trial}));
    }
  }
  CHECK(seeds.size() == 100'000);
}

TEST_CASE("a seed gives the generator's reference sequence") {
  // xoshiro256** from the splitmix64 states of seed 0, as in the authors' C.
  Rng rng(0);
  CHECK(rng() == 11091344671253066420ULL);
  CHECK(rng() == 13793997310169335082ULL);
  CHECK(rng() == 1900383378846508768ULL);
}

TEST_CASE("uniform numbers fill the unit interval evenly") {
  Rng rng(5);
  std::vector<int> slices(20);
  for (int i = 0; i < 100'000; ++i) {
    const double u = rng.uniform();
    CHECK_UNARY(u >= 0 && u < 1);
    ++slices[size_t(u * 20)];
  }
  // 5,000 expected; six standard deviations are 414.
  for (const int n : slices) CHECK(std::abs(n - 5000) < 414);
}

TEST_CASE("bounded integers are even for any bound") {
  Rng rng(6);
  for (const uint64_t bound : {1ULL, 2ULL, 3ULL, 7ULL, 10ULL}) {
    std::vector<int> count(bound);
    for (int i = 0; i < 20'000; ++i) ++count[rng.below(bound)];
    const double expected = 20'000.0 / double(bound);
    for (const int n : count) {
      CHECK(std::abs(n - expected) <= 6 * std::sqrt(expected));
    }
  }
  const uint64_t huge = (uint64_t{1} << 63) + 1;
  for (int i = 0; i < 100; ++i) CHECK(rng.below(huge) < huge);
  for (int i = 0; i < 100; ++i) CHECK(rng.below(UINT64_MAX) < UINT64_MAX);
}

TEST_CASE("shuffling keeps the items and favours no place") {
  std::vector<int> first_place(6);
  for (uint64_t seed = 0; seed < 12'000; ++seed) {
    std::vector<int> items(6);
    std::iota(items.begin(), items.end(), 0);
    Rng(seed).shuffle(std::span(items));
    ++first_place[size_t(items[0])];
    std::sort(items.begin(), items.end());
    REQUIRE(items == std::vector{0, 1, 2, 3, 4, 5});
  }
  // 2,000 expected; six standard deviations are 245.
  for (const int n : first_place) CHECK(std::abs(n - 2000) < 245);
}

TEST_CASE("normal quantiles agree with published values") {
  CHECK(normal_quantile(0.5) == doctest::Approx(0).epsilon(1e-15));
  CHECK(normal_quantile(0.975) ==
        doctest::Approx(1.959963984540054).epsilon(1e-14));
  CHECK(normal_quantile(0.9) ==
        doctest::Approx(1.2815515655446004).epsilon(1e-14));
  CHECK(normal_quantile(1e-10) ==
        doctest::Approx(-6.361340902404056).epsilon(1e-13));
  CHECK(normal_cdf(1) == doctest::Approx(0.8413447460685429).epsilon(1e-14));
  CHECK(normal_cdf(-8) ==
        doctest::Approx(6.220960574271785e-16).epsilon(1e-12));
}

TEST_CASE("the quantile inverts the distribution everywhere") {
  for (int i = 1; i < 1000; ++i) {
    const double p = i / 1000.0;
    CHECK(normal_cdf(normal_quantile(p)) == doctest::Approx(p).epsilon(1e-13));
    CHECK(normal_quantile(1 - p) ==
          doctest::Approx(-normal_quantile(p)).epsilon(1e-10));
  }
}

TEST_CASE("quantiles of the extreme probabilities are finite") {
  const double smallest = std::numeric_limits<double>::denorm_min();
  for (const double p : {smallest, 1e-308, 1e-300, 0x1p-53, 1 - 0x1p-53}) {
    CAPTURE(p);
    CHECK(std::isfinite(normal_quantile(p)));
  }
  CHECK(normal_quantile(1e-300) == doctest::Approx(-37.0471).epsilon(1e-5));
}

TEST_CASE("normal numbers have mean 0 and deviation 1") {
  Rng rng(9);
  double sum = 0;
  double squares = 0;
  constexpr int kCount = 100'000;
  for (int i = 0; i < kCount; ++i) {
    const double x = rng.normal();
    sum += x;
    squares += x * x;
  }
  // Six standard errors: 6 / sqrt(n) and 6 sqrt(2 / n).
  CHECK(std::abs(sum / kCount) < 0.019);
  CHECK(std::abs(squares / kCount - 1) < 0.027);
}
