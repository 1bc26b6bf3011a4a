#include "dtune/train/update_rule.h"

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

using namespace dtune;

namespace {

// One weight, followed in double by the formulae as published.
struct Reference {
  double w, first = 0, second = 0;

  void sgd(const TrainSpec& t, double l2, double g) {
    g += l2 * w;
    first = t.momentum * first + g;
    w -= t.lr * (t.nesterov ? g + t.momentum * first : first);
  }

  void adam(const TrainSpec& t, double l2, double g, int number) {
    if (t.optimizer == OptimizerKind::adamw) {
      w -= t.lr * l2 * w;
    } else {
      g += l2 * w;
    }
    first = t.beta1 * first + (1 - t.beta1) * g;
    second = t.beta2 * second + (1 - t.beta2) * g * g;
    const double m = first / (1 - std::pow(t.beta1, number));
    const double v = second / (1 - std::pow(t.beta2, number));
    w -= t.lr * m / (std::sqrt(v) + 1e-8);
  }
};

// A gradient that is not constant.
double slope(size_t i, int number) {
  return std::sin(static_cast<double>(i + 1) * number) + 0.1;
}

void check_follows(const TrainSpec& train) {
  constexpr size_t kCount = 37;  // not a multiple of a vector
  const std::vector<DecayRun> runs = {{0, 20, train.l2}, {20, kCount, 0}};
  std::vector<float> w(kCount), g(kCount), first(kCount), second(kCount);
  std::vector<Reference> reference;
  for (size_t i = 0; i < kCount; ++i) {
    w[i] = static_cast<float>(std::cos(static_cast<double>(i)));
    reference.push_back({.w = w[i]});
  }
  const bool plain = train.optimizer == OptimizerKind::sgd;
  for (int number = 1; number <= 5; ++number) {
    for (size_t i = 0; i < kCount; ++i) {
      g[i] = static_cast<float>(2 * slope(i, number));
      const double l2 = i < 20 ? train.l2 : 0;
      if (plain) {
        reference[i].sgd(train, l2, slope(i, number));
      } else {
        reference[i].adam(train, l2, slope(i, number), number);
      }
    }
    apply_update(train,
                 {.lr = train.lr, .number = number, .gradient_scale = 0.5},
                 runs, {w, g, first, plain ? std::span<float>() : second});
  }
  for (size_t i = 0; i < kCount; ++i) {
    CHECK(w[i] == doctest::Approx(reference[i].w).epsilon(1e-5));
  }
  CHECK(std::all_of(g.begin(), g.end(), [](float x) { return x == 0; }));
}

}  // namespace

TEST_CASE("sgd follows its formula, L2 coupled") {
  TrainSpec train;
  train.lr = 0.1;
  train.l2 = 0.05;
  check_follows(train);
  train.nesterov = true;
  check_follows(train);
  train.momentum = 0;
  check_follows(train);
}

TEST_CASE("adam follows its formula, L2 coupled") {
  TrainSpec train;
  train.optimizer = OptimizerKind::adam;
  train.lr = 0.01;
  train.l2 = 0.1;
  check_follows(train);
}

TEST_CASE("adamw follows its formula, L2 decoupled") {
  TrainSpec train;
  train.optimizer = OptimizerKind::adamw;
  train.lr = 0.01;
  train.l2 = 0.1;
  check_follows(train);
}

TEST_CASE("decoupled decay acts where there is no gradient, coupled too") {
  std::vector<float> w = {1}, g = {0}, first = {0}, second = {0};
  const std::vector<DecayRun> runs = {{0, 1, 0.5}};
  TrainSpec train;
  train.optimizer = OptimizerKind::adamw;
  apply_update(train, {.lr = 0.1}, runs, {w, g, first, second});
  CHECK(w[0] == doctest::Approx(0.95));
  train.optimizer = OptimizerKind::sgd;
  w = {1};
  first = {0};
  apply_update(train, {.lr = 0.1}, runs, {w, g, first, {}});
  CHECK(w[0] == doctest::Approx(0.95));
}
