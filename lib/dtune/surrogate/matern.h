// Matern covariances of a scaled distance r >= 0 (Rasmussen and Williams 2006,
// Gaussian Processes for Machine Learning, eq. 4.17), and r times their
// derivative, which is what gradients in log length-scales need.
#pragma once

#include <cmath>

namespace dtune {

inline double matern32(double r) {
  const double a = std::sqrt(3.0) * r;
  return (1 + a) * std::exp(-a);
}

// -r d/dr matern32(r) = 3 r^2 exp(-sqrt(3) r).
inline double matern32_slope(double r) {
  return 3 * r * r * std::exp(-std::sqrt(3.0) * r);
}

inline double matern52(double r) {
  const double a = std::sqrt(5.0) * r;
  return (1 + a + a * a / 3) * std::exp(-a);
}

// -r d/dr matern52(r) = 5/3 r^2 (1 + sqrt(5) r) exp(-sqrt(5) r).
inline double matern52_slope(double r) {
  const double a = std::sqrt(5.0) * r;
  return 5.0 / 3.0 * r * r * (1 + a) * std::exp(-a);
}

}  // namespace dtune
