#include "dtune/surrogate/bfgs.h"

#include <cmath>

namespace dtune {
namespace {

// Rank-two update of the inverse Hessian.
void update_inverse(Eigen::MatrixXd& inverse, const Eigen::VectorXd& step,
                    const Eigen::VectorXd& change) {
  const double curvature = step.dot(change);
  if (curvature <= 1e-10) return;
  const auto n = step.size();
  const Eigen::MatrixXd left =
      Eigen::MatrixXd::Identity(n, n) - step * change.transpose() / curvature;
  inverse =
      left * inverse * left.transpose() + step * step.transpose() / curvature;
}

}  // namespace

Eigen::VectorXd minimise(const SmoothFunction& function, Eigen::VectorXd x,
                         const BfgsOptions& options) {
  const auto n = x.size();
  Eigen::MatrixXd inverse =
      Eigen::MatrixXd::Identity(n, n) * options.first_scale;
  Eigen::VectorXd gradient(n);
  double value = function(x, &gradient);
  if (!std::isfinite(value)) return x;
  for (int i = 0; i < options.iterations; ++i) {
    Eigen::VectorXd direction = -inverse * gradient;
    const double length = direction.norm();
    if (length > options.largest_step) {
      direction *= options.largest_step / length;
    }
    const double slope = gradient.dot(direction);
    double scale = 1;
    double next_value = 0;
    Eigen::VectorXd next;
    bool found = false;
    for (int trial = 0; trial < 8 && !found; ++trial, scale *= 0.4) {
      next = x + scale * direction;
      next_value = function(next, nullptr);
      found = next_value < value + 1e-4 * scale * slope;
    }
    if (!found) break;
    Eigen::VectorXd next_gradient(n);
    function(next, &next_gradient);
    update_inverse(inverse, next - x, next_gradient - gradient);
    const double gain = value - next_value;
    x = next;
    value = next_value;
    gradient = next_gradient;
    if (gain < options.tolerance) break;
  }
  return x;
}

}  // namespace dtune
