#include "dtune/parameter_server/ps_rules.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "dtune/base/error.h"
#include "dtune/train/update_rule.h"

namespace dtune {
namespace {

constexpr double kConstantLambda = 0.04;
constexpr double kAdaptiveLambda = 2;
constexpr float kMeanSquareDecay = 0.95F;
constexpr float kMeanSquareEpsilon = 1e-7F;

void compensate_constant(float lambda, const CompensationArrays& arrays) {
  float* __restrict__ g = arrays.gradient.data();
  const float* __restrict__ w = arrays.weights.data();
  const float* __restrict__ b = arrays.backup.data();
  for (size_t i = 0; i < arrays.gradient.size(); ++i) {
    g[i] += lambda * g[i] * g[i] * (w[i] - b[i]);
  }
}

void compensate_adaptive(float lambda, const CompensationArrays& arrays) {
  float* __restrict__ g = arrays.gradient.data();
  float* __restrict__ m = arrays.mean_square.data();
  const float* __restrict__ w = arrays.weights.data();
  const float* __restrict__ b = arrays.backup.data();
  for (size_t i = 0; i < arrays.gradient.size(); ++i) {
    const float square = g[i] * g[i];
    m[i] = kMeanSquareDecay * m[i] + (1 - kMeanSquareDecay) * square;
    const float own = lambda / std::sqrt(m[i] + kMeanSquareEpsilon);
    g[i] += own * square * (w[i] - b[i]);
  }
}

}  // namespace

double staleness_factor(StalenessRule rule, int64_t staleness, int active) {
  const auto tau = static_cast<double>(std::max<int64_t>(staleness, 1));
  switch (rule) {
    case StalenessRule::delay_adaptive:
      return std::min(1.0, static_cast<double>(std::max(active, 1)) / tau);
    case StalenessRule::inverse:
      return 1 / tau;
    case StalenessRule::none:
      return 1;
  }
  return 1;
}

int64_t discard_threshold(const ParallelSpec& parallel) {
  return parallel.ps.discard > 0 ? parallel.ps.discard
                                 : int64_t{2} * parallel.ranks;
}

void compensate(const ParameterServerSpec& spec,
                const CompensationArrays& arrays) {
  DTUNE_CHECK(arrays.weights.size() == arrays.gradient.size());
  DTUNE_CHECK(arrays.backup.size() == arrays.gradient.size());
  const auto lambda = [&](double usual) {
    return static_cast<float>(spec.lambda > 0 ? spec.lambda : usual);
  };
  if (spec.compensation == Compensation::constant) {
    compensate_constant(lambda(kConstantLambda), arrays);
  } else if (spec.compensation == Compensation::adaptive) {
    DTUNE_CHECK(arrays.mean_square.size() == arrays.gradient.size());
    compensate_adaptive(lambda(kAdaptiveLambda), arrays);
  }
}

bool has_own_velocity(const TrainSpec& train) {
  return train.optimizer == OptimizerKind::sgd && train.momentum > 0;
}

TrainSpec worker_rule(TrainSpec train) {
  if (has_own_velocity(train)) train.nesterov = true;
  return train;
}

double clip_scale(double clip_norm, double squares) {
  return clip_factor(clip_norm, std::sqrt(squares));
}

double sum_of_squares(std::span<const float> values) {
  std::array<double, 8> lanes{};  // so that the loop vectorises
  size_t i = 0;
  for (; i + lanes.size() <= values.size(); i += lanes.size()) {
    for (size_t k = 0; k < lanes.size(); ++k) {
      const double value = values[i + k];
      lanes[k] += value * value;
    }
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  for (; i < values.size(); ++i) {
    sum += static_cast<double>(values[i]) * values[i];
  }
  return sum;
}

}  // namespace dtune
