#include "dtune/surrogate/conv_lstm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "surrogate/feature_sample.h"
#include <doctest/doctest.h>

#include "dtune/base/error.h"

using namespace dtune;

namespace {

constexpr ConvLstmShape kSmall = {.hidden = 8, .head = 16};

// A network whose last map is not zero any more.
ConvLstm moved(const ConvLstmShape& shape, uint64_t seed) {
  ConvLstm network(shape, seed);
  Rng rng(seed);
  for (float& p : network.parameters()) {
    p += static_cast<float>(0.05 * rng.normal());
  }
  return network;
}

bool equal(const Correction& a, const Correction& b, double tolerance = 0) {
  for (int k = 0; k < kMixtureParts; ++k) {
    if (std::abs(a.weight[k] - b.weight[k]) > tolerance) return false;
    if (std::abs(a.shift[k] - b.shift[k]) > tolerance) return false;
    if (std::abs(a.scale[k] - b.scale[k]) > tolerance) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("an untrained network predicts the fixed heavy tails") {
  for (const uint64_t seed : {1, 2}) {
    const FeatureSample sample = feature_sample(seed);
    for (const Correction& c :
         ConvLstm(ConvLstmShape(), seed).correct(sample.study)) {
      REQUIRE(equal(c, kHeavyTails, 1e-12));
    }
  }
}

TEST_CASE("every voxel of every later frame sees a single observation") {
  const ConvLstm network = moved(kSmall, 8);
  FeatureSample sample = feature_sample(8);
  std::ranges::fill(sample.study.seen, 0.0F);
  const auto before = network.correct(sample.study);
  sample.study.seen[0] = 1;
  sample.study.value[0] = 0.7F;
  const auto after = network.correct(sample.study);
  for (size_t i = 0; i < kFeaturePlaces; ++i) {
    REQUIRE(!equal(before[i], after[i]));
  }
}

TEST_CASE("predictions depend neither on order nor on threads") {
  const ConvLstm network = moved(ConvLstmShape(), 9);
  const FeatureSample a = feature_sample(10), b = feature_sample(11);
  const auto expected = network.correct(a.study);
  network.correct(b.study);
  std::vector<std::vector<Correction>> answers(4);
  std::vector<std::thread> threads;
  for (auto& answer : answers) {
    threads.emplace_back([&] { answer = network.correct(a.study); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& answer : answers) {
    for (size_t i = 0; i < kFeaturePlaces; ++i) {
      REQUIRE(equal(answer[i], expected[i]));
    }
  }
}

TEST_CASE("input that is not finite gives heavy tails or finite answers") {
  const ConvLstm network = moved(kSmall, 12);
  FeatureSample sample = feature_sample(12);
  sample.study.mean[3] = std::numeric_limits<float>::quiet_NaN();
  sample.study.deviation[4] = 0;
  sample.study.deviation[5] = std::numeric_limits<float>::infinity();
  sample.study.value[6] = -std::numeric_limits<float>::infinity();
  sample.study.seen[6] = 1;
  sample.study.deviation[7] = 1e-30F;
  const auto answer = network.correct(sample.study);
  for (const size_t i : {3, 4, 5}) CHECK(equal(answer[i], kHeavyTails));
  for (const Correction& c : answer) REQUIRE(std::isfinite(mean_of(c)));
}

TEST_CASE("weights that have gone wild give heavy tails") {
  ConvLstm network = moved(kSmall, 13);
  network.parameters().back() = std::numeric_limits<float>::quiet_NaN();
  for (const Correction& c : network.correct(feature_sample(13).study)) {
    REQUIRE(equal(c, kHeavyTails));
  }
}

TEST_CASE("a shape out of its bounds is refused") {
  for (const ConvLstmShape& shape :
       {ConvLstmShape{.hidden = 0}, ConvLstmShape{.hidden = 10},
        ConvLstmShape{.hidden = 1024}, ConvLstmShape{.head = 20},
        ConvLstmShape{.head = -16}}) {
    CHECK_THROWS_AS(ConvLstm(shape, 1), Error);
  }
}
