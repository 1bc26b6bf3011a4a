#include <algorithm>
#include <cmath>

#include "dtune/surrogate/conv_lstm_parts.h"

namespace dtune {
namespace {

constexpr double kLogitBound = 8;
constexpr double kShiftBound = 6;
constexpr double kLogScaleBound = 3;
constexpr double kLogRootTwoPi = 0.91893853320467274178;

struct Bounded {
  double value;
  double slope;  // d value / d x
};

Bounded bounded(double x, double bound) {
  const double t = std::tanh(x / bound);
  return {bound * t, 1 - t * t};
}

using Parts = std::array<double, kMixtureParts>;

// ln weights from logits; returns the slopes of the bounds by the way.
Parts log_weights(const float* logits, Parts* slope) {
  Parts result;
  double top = -HUGE_VAL;
  for (int k = 0; k < kMixtureParts; ++k) {
    const Bounded logit = bounded(logits[k], kLogitBound);
    result[k] = std::log(kHeavyTails.weight[k]) + logit.value;
    if (slope != nullptr) (*slope)[k] = logit.slope;
    top = std::max(top, result[k]);
  }
  double sum = 0;
  for (const double x : result) sum += std::exp(x - top);
  const double total = top + std::log(sum);
  for (double& x : result) x -= total;
  return result;
}

}  // namespace

Correction mixture_of(const float* outputs) {
  const Parts log_weight = log_weights(outputs, nullptr);
  Correction result;
  for (int k = 0; k < kMixtureParts; ++k) {
    result.weight[k] = std::exp(log_weight[k]);
    result.shift[k] = bounded(outputs[kMixtureParts + k], kShiftBound).value;
    result.scale[k] =
        kHeavyTails.scale[k] *
        std::exp(bounded(outputs[2 * kMixtureParts + k], kLogScaleBound).value);
  }
  return result;
}

// With r_k the share of part k in the density at z and e = (z - shift) / scale:
//   d/d logit_k = weight_k - r_k,   d/d shift_k = -r_k e_k / scale_k,
//   d/d ln scale_k = r_k (1 - e_k^2).
double mixture_loss(const float* outputs, double z,
                    std::array<double, kOutputs>* slope) {
  Parts logit_slope;
  const Parts log_weight = log_weights(outputs, &logit_slope);
  Parts term, e, inverse, shift_slope, scale_slope;
  double top = -HUGE_VAL;
  for (int k = 0; k < kMixtureParts; ++k) {
    const Bounded shift = bounded(outputs[kMixtureParts + k], kShiftBound);
    const Bounded scale =
        bounded(outputs[2 * kMixtureParts + k], kLogScaleBound);
    inverse[k] = std::exp(-scale.value) / kHeavyTails.scale[k];
    e[k] = (z - shift.value) * inverse[k];
    term[k] = log_weight[k] + std::log(inverse[k]) - 0.5 * e[k] * e[k];
    shift_slope[k] = shift.slope;
    scale_slope[k] = scale.slope;
    top = std::max(top, term[k]);
  }
  double sum = 0;
  for (const double x : term) sum += std::exp(x - top);
  const double total = top + std::log(sum);
  if (slope != nullptr) {
    for (int k = 0; k < kMixtureParts; ++k) {
      const double share = std::exp(term[k] - total);
      (*slope)[k] = (std::exp(log_weight[k]) - share) * logit_slope[k];
      (*slope)[kMixtureParts + k] = -share * e[k] * inverse[k] * shift_slope[k];
      (*slope)[2 * kMixtureParts + k] =
          share * (1 - e[k] * e[k]) * scale_slope[k];
    }
  }
  return kLogRootTwoPi - total;
}

}  // namespace dtune
