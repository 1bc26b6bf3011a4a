// The logarithm of the expected improvement (Ament et al. 2023,
// arXiv 2310.20708): ordered and differentiable where the improvement itself
// has long underflowed to 0.
#pragma once

namespace dtune {

struct LogImprovement {
  double value = 0;
  double by_mean = 0;  // derivatives
  double by_deviation = 0;
};

// ln E max(0, X - best), X ~ N(mean, deviation^2). REQUIRES: deviation > 0.
LogImprovement log_expected_improvement(double mean, double deviation,
                                        double best);

}  // namespace dtune
