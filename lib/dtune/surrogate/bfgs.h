// Minimisation of a smooth function of a few variables.
#pragma once

#include <functional>

#include <Eigen/Core>

namespace dtune {

// Value at x; writes the gradient if `gradient` is not null. May return
// infinity where x is not allowed, and then no gradient.
using SmoothFunction =
    std::function<double(const Eigen::VectorXd& x, Eigen::VectorXd* gradient)>;

struct BfgsOptions {
  int iterations = 20;
  double first_scale = 0.05;  // of the inverse Hessian to begin with
  double largest_step = 1.0;  // in x
  double tolerance = 1e-3;    // stops where an iteration gains less
};

// BFGS with backtracking (Nocedal and Wright 2006, algorithm 6.1, with
// Armijo's condition only; updates that are not positive definite are left
// out), an iteration at a time. Deterministic. Not thread-safe.
class Bfgs {
 public:
  // Evaluates the function at x once.
  Bfgs(SmoothFunction function, Eigen::VectorXd x, const BfgsOptions& options);

  // Whether the function is finite at the first x.
  bool possible() const { return possible_; }
  // One iteration; false: that was the last one, or none was left.
  bool step();
  // The best x found: the first one where the function is not finite there.
  const Eigen::VectorXd& x() const { return x_; }

 private:
  bool search(const Eigen::VectorXd& direction, Eigen::VectorXd& next,
              double& next_value) const;

  SmoothFunction function_;
  BfgsOptions options_;
  Eigen::VectorXd x_;
  double value_ = 0;
  Eigen::VectorXd gradient_;
  Eigen::MatrixXd inverse_;  // of the Hessian
  bool possible_ = false;
  int left_ = 0;
};

// All iterations at once; returns Bfgs::x().
Eigen::VectorXd minimise(const SmoothFunction& function, Eigen::VectorXd x,
                         const BfgsOptions& options);

}  // namespace dtune
