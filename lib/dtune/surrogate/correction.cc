#include "dtune/surrogate/correction.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dtune {
namespace {

constexpr double kHalfLogTwoPi = 0.91893853320467274178;

double log_normal_density(double x) {
  x = std::clamp(x, -1e150, 1e150);
  return -0.5 * x * x - kHalfLogTwoPi;
}

// ln sum_k weight_k exp(term_k).
double log_mean(const Correction& correction,
                const std::array<double, kMixtureParts>& terms) {
  double top = -HUGE_VAL;
  for (int k = 0; k < kMixtureParts; ++k) {
    if (correction.weight[k] > 0) top = std::max(top, terms[k]);
  }
  double sum = 0;
  for (int k = 0; k < kMixtureParts; ++k) {
    if (correction.weight[k] > 0) {
      sum += correction.weight[k] * std::exp(terms[k] - top);
    }
  }
  return top + std::log(sum);
}

}  // namespace

// Far out by the asymptotic series (Abramowitz and Stegun 1964, 26.2.12), whose
// first term left out is below 1e-9 there.
double log_normal_tail(double x) {
  constexpr double kFar = 25;
  if (x < kFar) return std::log(0.5 * std::erfc(x / std::numbers::sqrt2));
  x = std::min(x, 1e150);  // whose square is finite
  const double s = 1 / (x * x);
  return -0.5 * x * x - kHalfLogTwoPi - std::log(x) +
         std::log1p(-s * (1 - 3 * s * (1 - 5 * s)));
}

double log_upper_tail(const Correction& correction, double threshold) {
  std::array<double, kMixtureParts> terms;
  for (int k = 0; k < kMixtureParts; ++k) {
    terms[k] = log_normal_tail((threshold - correction.shift[k]) /
                               correction.scale[k]);
  }
  return std::min(log_mean(correction, terms), 0.0);
}

double log_density(const Correction& correction, double z) {
  std::array<double, kMixtureParts> terms;
  for (int k = 0; k < kMixtureParts; ++k) {
    terms[k] =
        log_normal_density((z - correction.shift[k]) / correction.scale[k]) -
        std::log(correction.scale[k]);
  }
  return log_mean(correction, terms);
}

double mean_of(const Correction& correction) {
  double sum = 0;
  for (int k = 0; k < kMixtureParts; ++k) {
    sum += correction.weight[k] * correction.shift[k];
  }
  return sum;
}

}  // namespace dtune
