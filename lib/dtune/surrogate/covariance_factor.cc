#include "dtune/surrogate/covariance_factor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <Eigen/Cholesky>

namespace dtune {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kFirstJitter = 1e-12;  // of the diagonal's mean
constexpr double kLargestJitter = 1;
// In place of a matrix that is not finite.
constexpr double kNoInformation = 1e6;
// Smaller pivots, as shares of that mean, are rounding errors.
constexpr double kLeastPivot = 1e-13;

constexpr Index kBlock = 32;

double scale_of(const MatrixXd& k) { return k.diagonal().cwiseAbs().mean(); }

// Of a lower triangle, by halves.
MatrixXd inverse_of(const Eigen::Ref<const MatrixXd>& lower) {
  const Index n = lower.rows();
  MatrixXd result = MatrixXd::Zero(n, n);
  if (n <= kBlock) {
    result.setIdentity();
    lower.triangularView<Eigen::Lower>().solveInPlace(result);
    return result;
  }
  const Index first = n / 2;
  const Index last = n - first;
  result.topLeftCorner(first, first) =
      inverse_of(lower.topLeftCorner(first, first));
  result.bottomRightCorner(last, last) =
      inverse_of(lower.bottomRightCorner(last, last));
  const MatrixXd between =
      lower.bottomLeftCorner(last, first) * result.topLeftCorner(first, first);
  result.bottomLeftCorner(last, first).noalias() =
      -(result.bottomRightCorner(last, last) * between);
  return result;
}

}  // namespace

void CovarianceFactor::reserve(Index n) {
  if (lower_.rows() >= n) return;
  const Index room = std::max(n, lower_.rows() + lower_.rows() / 4);
  MatrixXd larger(room, room);
  larger.topLeftCorner(size_, size_) = lower_.topLeftCorner(size_, size_);
  lower_.swap(larger);
}

void CovarianceFactor::clear() {
  size_ = 0;
  jitter_ = 0;
  given_up_ = false;
}

// Writes the factor of `k` to the diagonal block that begins at `from`. Eigen's
// own check lets NaN pass.
bool CovarianceFactor::try_block(const MatrixXd& k, Index from, double scale) {
  auto block = lower_.block(from, from, k.rows(), k.rows());
  block.triangularView<Eigen::Lower>() = k;
  Eigen::Ref<MatrixXd> in_place(block);
  const Eigen::LLT<Eigen::Ref<MatrixXd>> llt(in_place);
  const double least = block.diagonal().array().square().minCoeff();
  return llt.info() == Eigen::Success && block.diagonal().allFinite() &&
         least > kLeastPivot * scale;
}

void CovarianceFactor::factorise_block(MatrixXd k, Index from, double scale) {
  double added = 0;
  bool done = try_block(k, from, scale);
  for (double jitter = kFirstJitter; !done && jitter <= kLargestJitter;
       jitter *= 10) {
    k.diagonal().array() += (jitter - added) * scale;
    added = jitter;
    done = try_block(k, from, scale);
  }
  jitter_ = std::max(jitter_, added);
  if (done) return;
  given_up_ = true;
  auto block = lower_.block(from, from, k.rows(), k.rows());
  block.setZero();
  block.diagonal().setConstant(kNoInformation);
}

bool CovarianceFactor::try_compute(const MatrixXd& k) {
  clear();
  reserve(k.rows());
  if (!try_block(k, 0, scale_of(k))) return false;
  size_ = k.rows();
  return true;
}

void CovarianceFactor::compute(const MatrixXd& k) {
  clear();
  reserve(k.rows());
  factorise_block(k, 0, scale_of(k));
  size_ = k.rows();
}

void CovarianceFactor::append(const MatrixXd& cross, const MatrixXd& self) {
  const Index n = size_;
  const Index more = self.rows();
  if (more == 0) return;
  reserve(n + more);
  MatrixXd half = cross;
  solve_lower(half);
  if (!half.allFinite()) half.setZero();
  lower_.block(n, 0, more, n) = half.transpose();
  MatrixXd rest = self;
  rest.triangularView<Eigen::Lower>() -= half.transpose() * half;
  factorise_block(std::move(rest), n, scale_of(self));
  size_ = n + more;
}

void CovarianceFactor::solve_lower(Eigen::Ref<MatrixXd> b) const {
  lower_.topLeftCorner(size_, size_)
      .triangularView<Eigen::Lower>()
      .solveInPlace(b);
}

VectorXd CovarianceFactor::solve(const VectorXd& b) const {
  VectorXd x = b;
  const auto lower =
      lower_.topLeftCorner(size_, size_).triangularView<Eigen::Lower>();
  lower.solveInPlace(x);
  lower.transpose().solveInPlace(x);
  return x;
}

double CovarianceFactor::half_log_determinant() const {
  return lower_.topLeftCorner(size_, size_).diagonal().array().log().sum();
}

// A product of Eigen's for each block leaves out most of what is 0.
MatrixXd CovarianceFactor::inverse() const {
  const MatrixXd half = inverse_of(lower_.topLeftCorner(size_, size_));
  MatrixXd result(size_, size_);
  for (Index from = 0; from < size_; from += kBlock) {
    const Index count = std::min(kBlock, size_ - from);
    const Index rest = size_ - from;
    result.block(from, 0, count, from + count).noalias() =
        half.block(from, from, rest, count).transpose() *
        half.block(from, 0, rest, from + count);
  }
  result.triangularView<Eigen::StrictlyUpper>() = result.transpose();
  return result;
}

}  // namespace dtune
