#include "dtune/surrogate/expected_improvement.h"

#include <cmath>
#include <numbers>

#include "dtune/base/random.h"

namespace dtune {
namespace {

struct LogH {
  double value;
  double slope;
};

// ln h, h(z) = phi(z) + z Phi(z), h' = Phi. Far below 0 the two terms cancel:
// there the asymptotic series h = phi / z^2 (1 - 3 / z^2 + 15 / z^4 - ...)
// takes over, which at z = -10 is exact to 1e-6.
LogH log_h(double z) {
  constexpr double kFar = -10;
  const double log_phi = -0.5 * z * z - 0.5 * std::log(2 * std::numbers::pi);
  if (z > kFar) {
    const double below = normal_cdf(z);
    const double h = std::exp(log_phi) + z * below;
    return {std::log(h), below / h};
  }
  const double q = 1 / (z * z);
  const double series = 1 + q * (-3 + q * (15 + q * (-105 + q * 945)));
  const double by_q = -3 + q * (30 + q * (-315 + q * 3780));
  return {log_phi + std::log(q * series),
          -z - 2 / z - 2 * q / z * by_q / series};
}

}  // namespace

LogImprovement log_expected_improvement(double mean, double deviation,
                                        double best) {
  const double z = (mean - best) / deviation;
  const LogH h = log_h(z);
  return {std::log(deviation) + h.value, h.slope / deviation,
          (1 - h.slope * z) / deviation};
}

}  // namespace dtune
