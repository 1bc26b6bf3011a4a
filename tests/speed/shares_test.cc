#include "dtune/speed/shares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "dtune/base/random.h"

using namespace dtune;  // NOLINT: a test

namespace {

using Shares = std::vector<int64_t>;
using Speeds = std::vector<double>;

int64_t sum(const Shares& shares) {
  return std::accumulate(shares.begin(), shares.end(), int64_t{0});
}

// Ratios up to 1e4; some equal, some unknown.
Speeds random_speeds(Rng& rng, size_t ranks) {
  Speeds speeds;
  for (size_t i = 0; i < ranks; ++i) {
    const uint64_t kind = rng.below(8);
    if (kind == 0) {
      speeds.push_back(0);
    } else if (kind == 1 && i > 0) {
      speeds.push_back(speeds[i - 1]);
    } else {
      speeds.push_back(std::exp(rng.uniform(0, std::log(1e4))));
    }
  }
  return speeds;
}

ShareLimits random_limits(Rng& rng) {
  ShareLimits limits;
  limits.least = int64_t(rng.below(6));
  if (rng.below(2) == 0) limits.most = 1 + int64_t(rng.below(64));
  return limits;
}

}  // namespace

TEST_CASE("shares are in proportion to speeds") {
  CHECK(split_batch(100, Speeds{3, 1, 1}, {}) == Shares{60, 20, 20});

  CHECK(split_batch(130, Speeds{100, 100, 100, 25}, {}) ==
        Shares{40, 40, 40, 10});
}

TEST_CASE("the largest remainders get what rounding leaves") {
  // Ideal: 4.2, 3.5, 2.3.
  CHECK(split_batch(10, Speeds{42, 35, 23}, {}) == Shares{4, 4, 2});
  CHECK(split_batch(10, Speeds{1, 1, 1}, {}) == Shares{4, 3, 3});
}

TEST_CASE("a rank of unknown speed counts as the mean of the others") {
  CHECK(split_batch(60, Speeds{0, 3, 1}, {}) == Shares{20, 30, 10});
  CHECK(split_batch(10, Speeds{0, 0}, {}) == Shares{5, 5});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(split_batch(9, Speeds{nan, -1, infinity}, {}) == Shares{3, 3, 3});
}

TEST_CASE("a batch smaller than the leasts leaves the slowest without") {
  CHECK(split_batch(2, Speeds{1, 5, 3}, {}) == Shares{0, 1, 1});
  CHECK(split_batch(7, Speeds{1, 5, 3}, {.least = 3}) == Shares{0, 4, 3});
  CHECK(split_batch(1, Speeds{1, 1}, {.least = 4}) == Shares{1, 0});
  CHECK(split_batch(0, Speeds{1, 1}, {}) == Shares{0, 0});
}

TEST_CASE("what memory does not allow goes to the others") {
  CHECK(split_batch(100, Speeds{8, 1, 1}, {.most = 50}) == Shares{50, 25, 25});
  CHECK(split_batch(100, Speeds{8, 4, 1}, {.most = 40}) == Shares{40, 40, 20});
}

TEST_CASE("a batch that no memory holds is spread evenly") {
  CHECK(split_batch(10, Speeds{8, 1, 1}, {.most = 2}) == Shares{4, 3, 3});
}

TEST_CASE("speeds at the ends of what a double holds are split like others") {
  CHECK(split_batch(10, Speeds{1e308, 1e308}, {}) == Shares{5, 5});
  CHECK(split_batch(10, Speeds{1e308, 5e-324}, {}) == Shares{9, 1});
  CHECK(split_batch(10, Speeds{5e-324, 5e-324}, {}) == Shares{5, 5});
  const Shares wide = split_batch(int64_t{1} << 60, Speeds{3, 2, 1}, {});
  CHECK(sum(wide) == int64_t{1} << 60);
}

TEST_CASE("random splits sum to the batch within the limits") {
  Rng rng(1);
  for (int i = 0; i < 20000; ++i) {
    const size_t ranks = 1 + rng.below(12);
    const Speeds speeds = random_speeds(rng, ranks);
    const ShareLimits limits = random_limits(rng);
    const auto batch = int64_t(rng.below(600));
    const Shares shares = split_batch(batch, speeds, limits);
    REQUIRE(shares.size() == ranks);
    REQUIRE(sum(shares) == batch);
    const auto n = int64_t(ranks);
    const int64_t most = std::max(limits.most, (batch + n - 1) / n);
    const int64_t least = std::min({limits.least, most, batch / n});
    for (const int64_t share : shares) {
      REQUIRE(share >= 0);
      REQUIRE(share <= most);
      if (batch >= n * limits.least) REQUIRE(share >= least);
    }
  }
}

TEST_CASE("a faster rank never gets less than a slower one") {
  Rng rng(2);
  for (int i = 0; i < 5000; ++i) {
    const Speeds speeds = random_speeds(rng, 1 + rng.below(9));
    const Shares shares =
        split_batch(int64_t(rng.below(400)), speeds, random_limits(rng));
    for (size_t a = 0; a < speeds.size(); ++a) {
      for (size_t b = 0; b < speeds.size(); ++b) {
        if (speeds[b] > 0 && speeds[a] > speeds[b]) {
          REQUIRE(shares[a] >= shares[b]);
        }
      }
    }
  }
}

TEST_CASE("a rank that becomes faster never gets less") {
  Rng rng(3);
  for (int i = 0; i < 5000; ++i) {
    Speeds speeds = random_speeds(rng, 1 + rng.below(9));
    const size_t who = rng.below(speeds.size());
    if (speeds[who] == 0) continue;
    const ShareLimits limits = random_limits(rng);
    const auto batch = int64_t(rng.below(400));
    const bool others_known =
        std::find(speeds.begin(), speeds.end(), 0.0) == speeds.end();
    if (!others_known) continue;  // it would make those faster, too
    const Shares before = split_batch(batch, speeds, limits);
    speeds[who] *= rng.uniform(1, 3);
    const Shares after = split_batch(batch, speeds, limits);
    REQUIRE(after[who] >= before[who]);
  }
}

TEST_CASE("no other split of the same batch is faster by more than rounding") {
  Rng rng(4);
  for (int i = 0; i < 2000; ++i) {
    Speeds speeds;
    for (int k = 0; k < 4; ++k) speeds.push_back(rng.uniform(1, 10));
    const Shares shares = split_batch(200, speeds, {});
    const double ideal =
        200 / std::accumulate(speeds.begin(), speeds.end(), 0.0);
    const double slowest = *std::min_element(speeds.begin(), speeds.end());
    REQUIRE(round_seconds(shares, speeds) <= ideal + 1 / slowest);
  }
}

TEST_CASE("a round takes as long as its slowest rank") {
  CHECK(round_seconds(Shares{10, 10}, Speeds{10, 5}) == doctest::Approx(2));
  CHECK(round_seconds(Shares{10, 0}, Speeds{10, 0.1}) == doctest::Approx(1));
  CHECK(round_seconds(Shares{10, 30}, Speeds{10, 0}) == doctest::Approx(3));
  CHECK(round_seconds(Shares{1, 1}, Speeds{0, 0}) == 0);
}

TEST_CASE("shares change only for what is worth it") {
  const Speeds speeds = {10, 10};
  CHECK(worth_changing(Shares{8, 2}, Shares{5, 5}, speeds, 0.05));
  CHECK_FALSE(worth_changing(Shares{51, 49}, Shares{50, 50}, speeds, 0.05));
  CHECK_FALSE(worth_changing(Shares{5, 5}, Shares{8, 2}, speeds, 0.05));
  CHECK_FALSE(worth_changing(Shares{5, 5}, Shares{5, 5}, speeds, 0));
  CHECK(worth_changing(Shares{5, 5}, Shares{4, 3, 3}, Speeds{1, 1, 1}, 0.05));
  // The uneven last batch of an epoch is no gain in itself.
  CHECK_FALSE(worth_changing(Shares{50, 50}, Shares{5, 5}, speeds, 0.05));
}
