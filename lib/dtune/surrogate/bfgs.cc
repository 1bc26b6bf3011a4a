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

Bfgs::Bfgs(SmoothFunction function, Eigen::VectorXd x,
           const BfgsOptions& options)
    : function_(std::move(function)),
      options_(options),
      x_(std::move(x)),
      gradient_(x_.size()),
      inverse_(Eigen::MatrixXd::Identity(x_.size(), x_.size()) *
               options.first_scale) {
  value_ = function_(x_, &gradient_);
  possible_ = std::isfinite(value_);
  left_ = possible_ ? options_.iterations : 0;
}

// Along the direction, nearer and nearer, until the value is low enough.
bool Bfgs::search(const Eigen::VectorXd& direction, Eigen::VectorXd& next,
                  double& next_value) const {
  const double slope = gradient_.dot(direction);
  double scale = 1;
  for (int trial = 0; trial < 8; ++trial, scale *= 0.4) {
    next = x_ + scale * direction;
    next_value = function_(next, nullptr);
    if (next_value < value_ + 1e-4 * scale * slope) return true;
  }
  return false;
}

bool Bfgs::step() {
  if (left_ == 0) return false;
  Eigen::VectorXd direction = -inverse_ * gradient_;
  const double length = direction.norm();
  if (length > options_.largest_step) {
    direction *= options_.largest_step / length;
  }
  double next_value = 0;
  Eigen::VectorXd next;
  if (!search(direction, next, next_value)) {
    left_ = 0;
    return false;
  }
  Eigen::VectorXd next_gradient(x_.size());
  function_(next, &next_gradient);
  update_inverse(inverse_, next - x_, next_gradient - gradient_);
  left_ = value_ - next_value < options_.tolerance ? 0 : left_ - 1;
  x_ = std::move(next);
  value_ = next_value;
  gradient_ = std::move(next_gradient);
  return left_ > 0;
}

Eigen::VectorXd minimise(const SmoothFunction& function, Eigen::VectorXd x,
                         const BfgsOptions& options) {
  Bfgs bfgs(function, std::move(x), options);
  while (bfgs.step()) {
  }
  return bfgs.x();
}

}  // namespace dtune
