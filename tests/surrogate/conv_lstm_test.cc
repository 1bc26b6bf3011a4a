#include "dtune/surrogate/conv_lstm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "surrogate/lifted.h"
#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/surrogate/adam.h"

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

double loss_of(const ConvLstm& network, const LiftedSample& sample) {
  return network.loss(sample.study, sample.target, sample.weight);
}

std::vector<float> gradient_of(const ConvLstm& network,
                               const LiftedSample& sample) {
  std::vector<float> gradient(network.parameter_count());
  network.loss_and_gradient(sample.study, sample.target, sample.weight,
                            gradient);
  return gradient;
}

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
  return sum;
}

// (loss(p + step d) - loss(p - step d)) / (2 step)
double central_difference(ConvLstm network, const LiftedSample& sample,
                          std::span<const float> direction, double step) {
  const std::vector<float> start(network.parameters().begin(),
                                 network.parameters().end());
  double losses[2];
  for (const int side : {0, 1}) {
    const float signed_step = static_cast<float>(side == 0 ? -step : step);
    for (size_t i = 0; i < start.size(); ++i) {
      network.parameters()[i] = start[i] + signed_step * direction[i];
    }
    losses[side] = loss_of(network, sample);
  }
  return (losses[1] - losses[0]) / (2 * step);
}

void normalise(std::vector<float>& direction) {
  const double norm = std::sqrt(dot(direction, direction));
  for (float& d : direction) d = static_cast<float>(d / norm);
}

}  // namespace

TEST_CASE("the gradient agrees with differences in random directions") {
  // Rounding of a float network leaves about 1e-6 of the loss: 1e-5 of the
  // slopes at this step.
  for (const uint64_t seed : {1, 2, 3}) {
    const ConvLstm network = moved(kSmall, seed);
    const LiftedSample sample = lifted_sample(seed);
    const std::vector<float> gradient = gradient_of(network, sample);
    const double norm = std::sqrt(dot(gradient, gradient));
    Rng rng(seed);
    for (int i = 0; i < 4; ++i) {
      std::vector<float> direction(gradient.size());
      for (float& d : direction) d = static_cast<float>(rng.normal());
      normalise(direction);
      const double slope = central_difference(network, sample, direction, 0.05);
      CHECK(slope == doctest::Approx(dot(gradient, direction))
                         .epsilon(0.02)
                         .scale(1e-3 * norm));
    }
  }
}

TEST_CASE("the gradient agrees with differences in every tensor alone") {
  // Random numbers with the gradient's own signs: a slope far above rounding.
  const ConvLstm network = moved(kSmall, 4);
  const LiftedSample sample = lifted_sample(4);
  const std::vector<float> gradient = gradient_of(network, sample);
  const size_t h = 8, c1 = 12 + h, c2 = 2 * h;
  const std::vector<size_t> sizes = {27 * c1 * 4 * h,
                                     2 * c1 * 4 * h,
                                     4 * h,
                                     27 * c2 * 4 * h,
                                     2 * c2 * 4 * h,
                                     4 * h,
                                     (4 * h + 12) * 16,
                                     16,
                                     16 * 9,
                                     9};
  Rng rng(4);
  size_t at = 0;
  for (const size_t size : sizes) {
    std::vector<float> direction(gradient.size());
    for (size_t i = at; i < at + size; ++i) {
      direction[i] = static_cast<float>(2 * rng.uniform()) * gradient[i];
    }
    normalise(direction);
    const double slope = central_difference(network, sample, direction, 0.01);
    CAPTURE(size);
    CHECK(slope == doctest::Approx(dot(gradient, direction)).epsilon(0.01));
    at += size;
  }
  CHECK(at == gradient.size());
}

TEST_CASE("gradients are added, times the factor") {
  const ConvLstm network = moved(kSmall, 5);
  const LiftedSample sample = lifted_sample(5);
  const std::vector<float> once = gradient_of(network, sample);
  std::vector<float> twice = once;
  const double loss = network.loss_and_gradient(sample.study, sample.target,
                                                sample.weight, twice, 0.5);
  CHECK(loss == loss_of(network, sample));
  double difference = 0;
  for (size_t i = 0; i < once.size(); ++i) {
    difference =
        std::max<double>(difference, std::abs(twice[i] - 1.5F * once[i]));
  }
  CHECK(difference < 1e-5);
}

TEST_CASE("an untrained network answers the fixed heavy tails") {
  for (const uint64_t seed : {1, 2}) {
    const LiftedSample sample = lifted_sample(seed);
    for (const Correction& c :
         ConvLstm(ConvLstmShape(), seed).correct(sample.study)) {
      REQUIRE(equal(c, kHeavyTails, 1e-12));
    }
  }
}

TEST_CASE("the loss is the mean of minus the log density that is answered") {
  const ConvLstm network = moved(kSmall, 6);
  const LiftedSample sample = lifted_sample(6);
  const auto answer = network.correct(sample.study);
  double sum = 0;
  double total = 0;
  for (size_t i = 0; i < kLiftedPlaces; ++i) {
    const double deviation = sample.study.deviation[i];
    const double z =
        (double{sample.target[i]} - sample.study.mean[i]) / deviation;
    sum -= sample.weight[i] * (log_density(answer[i], z) - std::log(deviation));
    total += sample.weight[i];
  }
  CHECK(loss_of(network, sample) == doctest::Approx(sum / total));
}

TEST_CASE("a sample without any weight teaches nothing") {
  const ConvLstm network = moved(kSmall, 7);
  LiftedSample sample = lifted_sample(7);
  std::ranges::fill(sample.weight, 0.0F);
  std::ranges::fill(sample.target, std::numeric_limits<float>::quiet_NaN());
  CHECK(loss_of(network, sample) == 0);
  const std::vector<float> gradient = gradient_of(network, sample);
  CHECK(dot(gradient, gradient) == 0);
}

TEST_CASE("every voxel of every later frame sees a single observation") {
  const ConvLstm network = moved(kSmall, 8);
  LiftedSample sample = lifted_sample(8);
  std::ranges::fill(sample.study.seen, 0.0F);
  const auto before = network.correct(sample.study);
  sample.study.seen[0] = 1;
  sample.study.value[0] = 0.7F;
  const auto after = network.correct(sample.study);
  for (size_t i = 0; i < kLiftedPlaces; ++i) {
    REQUIRE(!equal(before[i], after[i]));
  }
}

TEST_CASE("answers depend neither on order nor on threads") {
  const ConvLstm network = moved(ConvLstmShape(), 9);
  const LiftedSample a = lifted_sample(10), b = lifted_sample(11);
  const auto expected = network.correct(a.study);
  network.correct(b.study);
  std::vector<std::vector<Correction>> answers(4);
  std::vector<std::thread> threads;
  for (auto& answer : answers) {
    threads.emplace_back([&] { answer = network.correct(a.study); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& answer : answers) {
    for (size_t i = 0; i < kLiftedPlaces; ++i) {
      REQUIRE(equal(answer[i], expected[i]));
    }
  }
}

TEST_CASE("input that is not finite gives heavy tails or finite answers") {
  const ConvLstm network = moved(kSmall, 12);
  LiftedSample sample = lifted_sample(12);
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
  for (const Correction& c : network.correct(lifted_sample(13).study)) {
    REQUIRE(equal(c, kHeavyTails));
  }
}

TEST_CASE("two hundred steps lower the loss of four samples clearly") {
  ConvLstm network({.hidden = 4, .head = 16}, 14);
  const std::vector<LiftedSample> samples = {
      lifted_sample(1, 3), lifted_sample(2, 3), lifted_sample(3, 3),
      lifted_sample(4, 3)};
  const auto total = [&] {
    double sum = 0;
    for (const LiftedSample& sample : samples) sum += loss_of(network, sample);
    return sum / 4;
  };
  const double before = total();
  Adam adam(network.parameter_count(),
            {.rate = 5e-3, .warm_up = 20, .steps = 200});
  for (int step = 0; step < 200; ++step) {
    std::vector<float> gradient(network.parameter_count());
    for (const LiftedSample& sample : samples) {
      network.loss_and_gradient(sample.study, sample.target, sample.weight,
                                gradient, 0.25);
    }
    adam.step(network.parameters(), gradient);
  }
  // Knowing the lean and the noise's deviation takes about .5 nats off.
  CHECK(total() < before - 0.4);
}

TEST_CASE("a shape out of its bounds is refused") {
  for (const ConvLstmShape& shape :
       {ConvLstmShape{.hidden = 0}, ConvLstmShape{.hidden = 10},
        ConvLstmShape{.hidden = 1024}, ConvLstmShape{.head = 20},
        ConvLstmShape{.head = -16}}) {
    CHECK_THROWS_AS(ConvLstm(shape, 1), Error);
  }
}
