// Cholesky's factor of a covariance matrix that grows, and that may be as good
// as singular: repeated or nearly equal observations without noise make it so.
// A private header: it needs Eigen.
#pragma once

#include <Eigen/Core>

namespace dtune {

// L with L L' = K + jitter. Where K is not positive definite in doubles, as
// much is added to its diagonal as it takes, from 1e-12 of the diagonal's mean
// on by factors of ten (Rasmussen and Williams 2006, section A.4). Never fails:
// of a K that has numbers which are not finite, L is the identity times a large
// number, by which what was observed says nothing.
//
// Immutable while it is read, so reading is thread-safe.
class CovarianceFactor {
 public:
  Eigen::Index size() const { return size_; }
  // Of the lower triangle of `k`, [n][n]. O(n^3).
  void compute(const Eigen::MatrixXd& k);
  // The same without any help: false, and of size 0, where K has no factor in
  // doubles.
  bool try_compute(const Eigen::MatrixXd& k);
  // With m rows and columns more: `cross` [n][m] is the covariance of the old
  // with the new ones, `self` [m][m] that of the new ones (lower triangle).
  // O(n^2 m + n m^2 + m^3).
  void append(const Eigen::MatrixXd& cross, const Eigen::MatrixXd& self);
  void clear();

  // L^-1 b in place, K^-1 b, ln det L and K^-1.
  void solve_lower(Eigen::Ref<Eigen::MatrixXd> b) const;
  Eigen::VectorXd solve(const Eigen::VectorXd& b) const;
  double half_log_determinant() const;
  Eigen::MatrixXd inverse() const;

  // Of the i-th row given those before it: a standard deviation.
  double pivot(Eigen::Index i) const { return lower_(i, i); }

  // The most that was added, as a share of the diagonal's mean; 0: nothing.
  double jitter() const { return jitter_; }
  // K was not finite: observations are left out.
  bool given_up() const { return given_up_; }

 private:
  void reserve(Eigen::Index n);
  bool try_block(const Eigen::MatrixXd& k, Eigen::Index from, double scale);
  void factorise_block(Eigen::MatrixXd k, Eigen::Index from, double scale);

  Eigen::MatrixXd lower_;  // its top left corner [size][size] is in use
  Eigen::Index size_ = 0;
  double jitter_ = 0;
  bool given_up_ = false;
};

}  // namespace dtune
