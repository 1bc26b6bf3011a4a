#include "dtune/surrogate/synthetic_curve.h"

#include <algorithm>
#include <cmath>

#include "dtune/base/random.h"

namespace dtune {
namespace {

constexpr size_t kBases = SyntheticCurve::kBases;

double exponential(double u) { return -std::log1p(-u); }

double lognormal(double u, double mean, double deviation) {
  return std::exp(mean + deviation * normal_quantile(u));
}

// Share of the way from start to end that a basis has left at x <= saturation;
// 1/precision at the saturation itself.
double left_of(size_t basis, double x, double a, double saturation,
               double precision) {
  const double share = x / saturation;
  switch (basis) {
    case 0:
      return std::pow((std::pow(precision, 1 / a) - 1) * share + 1, -a);
    case 1:
      return std::pow(precision, -std::pow(share, a));
    case 2: {
      // ln a / ln((a^PREC - a) x / Xsat + a), in logarithms of a^PREC, which
      // may be beyond any double.
      const double base = std::log(a);
      const double high = precision * base;
      const double inside =
          high > 500 && share > 0
              ? high + std::log(share)
              : std::log((std::exp(std::min(high, 500.0)) - a) * share + a);
      return base / std::max(inside, base);
    }
    default:
      return 1 / (std::pow(share, a) * (precision - 1) + 1);
  }
}

}  // namespace

double SyntheticCurve::at(double x) const {
  double sum = 0;
  for (size_t i = 0; i < kBases; ++i) {
    double time = x;
    if (x >= saturation[i]) {
      time = slope[i] * (x - saturation[i]) + saturation[i];
    }
    double y = 0;
    if (time < 0) {
      // Turned back beyond the beginning: falls from the start towards 0.
      y = start * std::exp(start > 0 ? time / start : 0);
    } else {
      const double left =
          left_of(i, time, shape[i], saturation[i], precision[i]);
      y = end - (end - start) * std::clamp(left, 0.0, 1.0);
    }
    sum += weight[i] * y;
  }
  return sum;
}

SyntheticCurve curve_of(const std::array<double, kCurveNumbers>& uniform,
                        double start, double top, double help) {
  SyntheticCurve curve;
  curve.start = start;
  curve.end = start + uniform[0] * (top - start);
  curve.end += help * (top - curve.end);
  double sum = 0;
  double longest = 0;
  for (size_t i = 0; i < kBases; ++i) {
    curve.weight[i] = exponential(uniform[1 + i]);
    sum += curve.weight[i];
    curve.saturation[i] = exponential(uniform[10 + i]);
    longest = std::max(longest, curve.saturation[i]);
  }
  curve.shape = {lognormal(uniform[5], 1, 1), lognormal(uniform[6], 0, 1),
                 1 + lognormal(uniform[7], -4, 1),
                 lognormal(uniform[8], 0.5, 0.5)};
  const double last = std::pow(10, normal_quantile(uniform[9]));
  for (size_t i = 0; i < kBases; ++i) {
    curve.weight[i] /= sum;
    curve.saturation[i] = std::max(curve.saturation[i] / longest * last, 1e-6);
    curve.precision[i] = std::pow(10, 3 * uniform[14 + i]);
    curve.slope[i] = 1 - exponential(uniform[18 + i]);
  }
  return curve;
}

}  // namespace dtune
