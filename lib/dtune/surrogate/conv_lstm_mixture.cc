#include <algorithm>
#include <cmath>

#include "dtune/surrogate/conv_lstm_parts.h"

namespace dtune {
namespace {

double bounded(double x, double bound) { return bound * std::tanh(x / bound); }

}  // namespace

Correction mixture_of(const float* outputs) {
  std::array<double, kMixtureParts> log_weight;
  for (int k = 0; k < kMixtureParts; ++k) {
    log_weight[k] =
        std::log(kHeavyTails.weight[k]) + bounded(outputs[k], kLogitBound);
  }
  const double top = *std::ranges::max_element(log_weight);
  double sum = 0;
  for (const double x : log_weight) sum += std::exp(x - top);
  const double total = top + std::log(sum);
  Correction result;
  for (int k = 0; k < kMixtureParts; ++k) {
    result.weight[k] = std::exp(log_weight[k] - total);
    result.shift[k] = bounded(outputs[kMixtureParts + k], kShiftBound);
    result.scale[k] =
        kHeavyTails.scale[k] *
        std::exp(bounded(outputs[2 * kMixtureParts + k], kLogScaleBound));
  }
  return result;
}

}  // namespace dtune
