#include "dtune/train/update_rule.h"

#include <algorithm>
#include <cmath>

#include "dtune/base/error.h"

namespace dtune {
namespace {

// Plain pointers that do not alias, so that the loops vectorise.
struct Pointers {
  float* __restrict__ w;
  float* __restrict__ g;
  float* __restrict__ first;
  float* __restrict__ second;
};

struct SgdFactors {
  float lr, l2, momentum, scale;
};

void sgd(const SgdFactors& f, bool nesterov, const Pointers& p, int64_t n) {
  float* __restrict__ w = p.w;
  float* __restrict__ g = p.g;
  float* __restrict__ v = p.first;
  // The step is own * gradient + carried * velocity.
  const float own = nesterov ? 1.0F : 0.0F;
  const float carried = nesterov ? f.momentum : 1.0F;
  for (int64_t i = 0; i < n; ++i) {
    const float gradient = g[i] * f.scale + f.l2 * w[i];
    v[i] = f.momentum * v[i] + gradient;
    w[i] -= f.lr * (own * gradient + carried * v[i]);
    g[i] = 0;
  }
}

struct AdamFactors {
  float rate;        // lr / (1 - b1^t)
  float root;        // 1 / sqrt(1 - b2^t)
  float coupled;     // l2 added to the gradient
  float keep;        // what decoupled decay leaves of w
  float b1, b2;      // decay of the moments
  float new1, new2;  // 1 - b1, 1 - b2
  float scale;
};

void adam(const AdamFactors& f, const Pointers& p, int64_t n) {
  float* __restrict__ w = p.w;
  float* __restrict__ g = p.g;
  float* __restrict__ m = p.first;
  float* __restrict__ s = p.second;
  const auto epsilon = static_cast<float>(kAdamEpsilon);
  for (int64_t i = 0; i < n; ++i) {
    const float weight = w[i] * f.keep;
    const float gradient = g[i] * f.scale + f.coupled * w[i];
    m[i] = f.b1 * m[i] + f.new1 * gradient;
    s[i] = f.b2 * s[i] + f.new2 * gradient * gradient;
    w[i] = weight - f.rate * m[i] / (std::sqrt(s[i]) * f.root + epsilon);
    g[i] = 0;
  }
}

SgdFactors sgd_factors(const TrainSpec& train, const UpdateStep& step,
                       double l2) {
  return {static_cast<float>(step.lr), static_cast<float>(l2),
          static_cast<float>(train.momentum),
          static_cast<float>(step.gradient_scale)};
}

AdamFactors adam_factors(const TrainSpec& train, const UpdateStep& step,
                         double l2) {
  const auto t = static_cast<double>(step.number);
  const bool decoupled = train.optimizer == OptimizerKind::adamw;
  AdamFactors f{};
  f.rate = static_cast<float>(step.lr / (1 - std::pow(train.beta1, t)));
  f.root = static_cast<float>(1 / std::sqrt(1 - std::pow(train.beta2, t)));
  f.coupled = static_cast<float>(decoupled ? 0 : l2);
  f.keep = static_cast<float>(decoupled ? 1 - step.lr * l2 : 1);
  f.b1 = static_cast<float>(train.beta1);
  f.b2 = static_cast<float>(train.beta2);
  f.new1 = static_cast<float>(1 - train.beta1);
  f.new2 = static_cast<float>(1 - train.beta2);
  f.scale = static_cast<float>(step.gradient_scale);
  return f;
}

}  // namespace

double clip_factor(double clip_norm, double norm) {
  if (clip_norm <= 0) return 1;
  return std::min(1.0, clip_norm / (norm + kClipEpsilon));
}

void apply_update(const TrainSpec& train, const UpdateStep& step,
                  std::span<const DecayRun> runs, const UpdateArrays& arrays) {
  const bool plain = train.optimizer == OptimizerKind::sgd;
  DTUNE_CHECK(arrays.first.size() == arrays.weights.size());
  DTUNE_CHECK(plain || arrays.second.size() == arrays.weights.size());
  for (const DecayRun& run : runs) {
    const int64_t n = run.end - run.begin;
    Pointers p{arrays.weights.data() + run.begin,
               arrays.gradients.data() + run.begin,
               arrays.first.data() + run.begin, nullptr};
    if (plain) {
      sgd(sgd_factors(train, step, run.l2), train.nesterov, p, n);
    } else {
      p.second = arrays.second.data() + run.begin;
      adam(adam_factors(train, step, run.l2), p, n);
    }
  }
}

}  // namespace dtune
