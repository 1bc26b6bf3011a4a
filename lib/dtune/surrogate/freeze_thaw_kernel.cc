#include "dtune/surrogate/freeze_thaw_kernel.h"

#include <algorithm>
#include <cmath>

namespace dtune {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Of f: what all curves of a study have in common beyond the prior's mean.
constexpr double kConstantVariance = 0.02;
// Keeps Cholesky's factor real where observations repeat.
constexpr double kJitter = 1e-8;

// Beyond the recorded axes: lengths in decades and, of dropout, in its own
// units.
constexpr double kLrLength = 0.5;
constexpr double kL2Length = 1.0;
constexpr double kDropoutLength = 0.2;

// With the sign of the end that is passed; 0 between the ends.
double beyond_ends(const std::vector<double>& axis, double value) {
  return value - std::clamp(value, axis.front(), axis.back());
}

const double kRoot3 = std::sqrt(3.0);

// The Matern covariance with nu = 3/2, on arrays.
template <typename Derived>
auto matern32_of(const Eigen::ArrayBase<Derived>& r) {
  return ((1 + kRoot3 * r) * (-kRoot3 * r).exp()).eval();
}

// Between the rows of `a` and those of `b`, as |a|^2 - 2 ab + |b|^2: rounding
// leaves some 1e-16 of points that are one, which the covariance, flat at 0,
// does not show. [na][nb]
MatrixXd squared_distances(const MatrixXd& a, const MatrixXd& b) {
  MatrixXd d = -2 * (a * b.transpose());
  d.colwise() += a.rowwise().squaredNorm();
  d.rowwise() += b.rowwise().squaredNorm().transpose();
  return d.cwiseMax(0.0);
}

}  // namespace

void ProcessInputs::reserve_columns(Index dimensions, Index components) {
  unit.resize(0, dimensions);
  phi.resize(components, 0);
  beyond.resize(0, 3);
}

void ProcessInputs::resize(Index n) {
  unit.conservativeResize(n, Eigen::NoChange);
  log_time.conservativeResize(n);
  mean.conservativeResize(n);
  phi.conservativeResize(Eigen::NoChange, n);
  beyond.conservativeResize(n, 3);
}

void ProcessInputs::set(Index i, const ProcessInput& input,
                        const CubePrior* prior) {
  for (Index d = 0; d < unit.cols(); ++d) {
    unit(i, d) = input.unit[static_cast<size_t>(d)];
  }
  log_time[i] = std::log(input.time);
  mean[i] = -1;
  beyond.row(i).setZero();
  if (prior == nullptr) return;
  const CubeAxes& axes = prior->axes();
  beyond(i, 0) = beyond_ends(axes.log10_lr, input.cube.log10_lr) / kLrLength;
  beyond(i, 1) = beyond_ends(axes.log10_l2, input.cube.log10_l2) / kL2Length;
  beyond(i, 2) = beyond_ends(axes.dropout, input.cube.dropout) / kDropoutLength;
  any_beyond = any_beyond || !beyond.row(i).isZero(0);
  double* column = phi.data() + i * phi.rows();
  mean[i] = prior->evaluate(input.cube, input.time,
                            {column, static_cast<size_t>(phi.rows())});
}

void ProcessInputs::append(std::span<const ProcessInput> inputs,
                           const CubePrior* prior) {
  const Index known = size();
  resize(known + static_cast<Index>(inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    set(known + static_cast<Index>(i), inputs[i], prior);
  }
}

ProcessInputs ProcessInputs::part(Index from, Index count) const {
  ProcessInputs some;
  some.unit = unit.middleRows(from, count);
  some.log_time = log_time.segment(from, count);
  some.mean = mean.segment(from, count);
  some.phi = phi.middleCols(from, count);
  some.beyond = beyond.middleRows(from, count);
  some.any_beyond = !some.beyond.isZero(0);
  return some;
}

ProcessInputs ProcessInputs::chosen(const std::vector<Index>& which) const {
  ProcessInputs some;
  some.unit = unit(which, Eigen::all);
  some.log_time = log_time(which);
  some.mean = mean(which);
  some.phi = phi(Eigen::all, which);
  some.beyond = beyond(which, Eigen::all);
  some.any_beyond = !some.beyond.isZero(0);
  return some;
}

// Of the inputs of `a` from some index on against one input.
struct ProcessKernel::Parts {
  Array distance;      // scaled, all dimensions
  Array space;         // Matern of it
  Array context;       // of the dimensions that the cube does not know
  Array outside;       // the distance in these, and beyond the cube's ends
  bool apart = false;  // there may be such distances
};

ProcessKernel::ProcessKernel(const std::vector<ProcessDimension>& dimensions,
                             const VectorXd& hyper)
    : dimensions_(dimensions) {
  const auto d = static_cast<Index>(dimensions.size());
  inverse_ = (-hyper.head(d).array()).exp();
  const auto h = [&](Hyper which) { return std::exp(hyper[d + which]); };
  const double s2 = h(kScale) * h(kScale);
  time_scale_ = h(kTimeScale);
  residual2_ = s2 * h(kResidual) * h(kResidual);
  learnt2_ = s2 * h(kLearnt) * h(kLearnt);
  noise2_ = s2 * h(kNoise) * h(kNoise);
  constant2_ = kConstantVariance;
  for (const ProcessDimension& p : dimensions) {
    any_unrecorded_ = any_unrecorded_ || !p.recorded;
  }
}

void ProcessKernel::add_squares(const ProcessInputs& a, Index from,
                                const ProcessInputs& b, Index j, Index d,
                                Array& sum) const {
  const auto column = a.unit.col(d).tail(a.size() - from).array();
  const double at = b.unit(j, d);
  const double scale = inverse_[d] * inverse_[d];
  if (dimensions_[static_cast<size_t>(d)].categorical) {
    sum += ((column - at).abs() > 1e-9).cast<double>() * scale;
  } else {
    sum += (column - at).square() * scale;
  }
}

// The squares of what lies beyond the ends of the prior's axes.
void ProcessKernel::add_beyond(const ProcessInputs& a, Index from,
                               const ProcessInputs& b, Index j, Array& sum) {
  for (Index e = 0; e < a.beyond.cols(); ++e) {
    sum += (a.beyond.col(e).tail(a.size() - from).array() - b.beyond(j, e))
               .square();
  }
}

ProcessKernel::Array ProcessKernel::gaps(const ProcessInputs& a, Index from,
                                         const ProcessInputs& b,
                                         Index j) const {
  return (a.log_time.tail(a.size() - from).array() - b.log_time[j]).abs() /
         time_scale_;
}

ProcessKernel::Parts ProcessKernel::parts(const ProcessInputs& a, Index from,
                                          const ProcessInputs& b,
                                          Index j) const {
  const Index n = a.size() - from;
  Parts p;
  p.distance = Array::Zero(n);
  p.outside = Array::Zero(n);
  for (Index d = 0; d < inverse_.size(); ++d) {
    const bool recorded = dimensions_[static_cast<size_t>(d)].recorded;
    add_squares(a, from, b, j, d, recorded ? p.distance : p.outside);
  }
  p.distance = (p.distance + p.outside).sqrt();
  p.space = matern32_of(p.distance);
  p.apart = any_unrecorded_ || a.any_beyond || b.any_beyond;
  if (p.apart) {
    add_beyond(a, from, b, j, p.outside);
    p.outside = p.outside.sqrt();
    p.context = matern32_of(p.outside);
  } else {
    p.context = Array::Ones(n);
  }
  return p;
}

void ProcessKernel::add_categories(const ProcessInputs& a,
                                   const ProcessInputs& b, Index j,
                                   Array& inside, Array& outside) const {
  for (Index d = 0; d < inverse_.size(); ++d) {
    const ProcessDimension& dimension = dimensions_[static_cast<size_t>(d)];
    if (!dimension.categorical) continue;
    add_squares(a, 0, b, j, d, dimension.recorded ? inside : outside);
  }
}

// The columns of real dimensions, recorded ones or the others, in units of
// their length scales; others are 0.
MatrixXd ProcessKernel::scaled(const ProcessInputs& a, bool recorded) const {
  VectorXd scale = inverse_;
  for (Index d = 0; d < scale.size(); ++d) {
    const ProcessDimension& dimension = dimensions_[static_cast<size_t>(d)];
    if (dimension.recorded != recorded || dimension.categorical) scale[d] = 0;
  }
  return a.unit * scale.asDiagonal();
}

MatrixXd ProcessKernel::cross(const ProcessInputs& a,
                              const ProcessInputs& b) const {
  MatrixXd k(a.size(), b.size());
  if (a.phi.rows() > 0) {
    k.noalias() = learnt2_ * (a.phi.transpose() * b.phi);
  } else {
    k.setZero();
  }
  const MatrixXd a_inside = scaled(a, true), b_inside = scaled(b, true);
  const MatrixXd a_outside = scaled(a, false), b_outside = scaled(b, false);
  const bool apart = any_unrecorded_ || a.any_beyond || b.any_beyond;
  constexpr Index kBlock = 32;  // columns that stay in the cache
  Array time, recorded, others, distance;
  for (Index from = 0; from < b.size(); from += kBlock) {
    const Index count = std::min(kBlock, b.size() - from);
    const MatrixXd inside =
        squared_distances(a_inside, b_inside.middleRows(from, count));
    const MatrixXd outside =
        squared_distances(a_outside, b_outside.middleRows(from, count));
    for (Index i = 0; i < count; ++i) {
      const Index j = from + i;
      // New points are asked about at one time.
      if (j == 0 || b.log_time[j] != b.log_time[j - 1]) {
        time = matern32_of(gaps(a, 0, b, j));
      }
      recorded = inside.col(i);
      others = outside.col(i);
      add_categories(a, b, j, recorded, others);
      distance = (recorded + others).sqrt();
      if (apart) {
        add_beyond(a, 0, b, j, others);
        others = others.sqrt();
        k.col(j).array() *= matern32_of(others);
      }
      k.col(j).array() +=
          residual2_ * time * matern32_of(distance) + constant2_;
    }
  }
  return k;
}

MatrixXd ProcessKernel::self(const ProcessInputs& a,
                             const MatrixXd& products) const {
  const Index n = a.size();
  MatrixXd k(n, n);
  for (Index j = 0; j < n; ++j) {
    const Parts p = parts(a, j, a, j);
    k.col(j).tail(n - j).array() =
        learnt2_ * products.col(j).tail(n - j).array() * p.context +
        residual2_ * p.space * matern32_of(gaps(a, j, a, j)) + constant2_;
    k(j, j) += noise();
  }
  return k;
}

double ProcessKernel::noise() const { return noise2_ + kJitter; }

VectorXd ProcessKernel::variance(const ProcessInputs& a) const {
  VectorXd v = VectorXd::Constant(a.size(), residual2_ + constant2_);
  if (a.phi.rows() > 0) {
    v += learnt2_ * a.phi.colwise().squaredNorm().transpose();
  }
  return v;
}

void ProcessKernel::add_gradient(const ProcessInputs& a,
                                 const MatrixXd& products, const MatrixXd& w,
                                 VectorXd& gradient) const {
  const Index n = a.size();
  const Index d = inverse_.size();
  Array square;
  for (Index j = 0; j < n; ++j) {
    const Parts p = parts(a, j, a, j);
    const Array gap = gaps(a, j, a, j);
    const Array time = matern32_of(gap);
    Array weight = 2 * w.col(j).tail(n - j).array();
    weight[0] = w(j, j);
    const Array learnt =
        learnt2_ * products.col(j).tail(n - j).array() * weight;
    const Array residual = residual2_ * p.space * time * weight;
    // -r dMatern/dr = 3 r^2 exp(-sqrt(3) r), and r^2 is a sum over dimensions.
    const Array slope =
        3 * residual2_ * weight * time * (-kRoot3 * p.distance).exp();
    Array outside_slope;
    if (p.apart) {
      outside_slope = 3 * learnt * (-kRoot3 * p.outside).exp();
    }
    for (Index i = 0; i < d; ++i) {
      square.setZero(n - j);
      add_squares(a, j, a, j, i, square);
      gradient[i] += (slope * square).sum();
      if (!dimensions_[static_cast<size_t>(i)].recorded) {
        gradient[i] += (outside_slope * square).sum();
      }
    }
    const double from_learnt = (learnt * p.context).sum();
    const double from_residual = residual.sum();
    const double from_noise = w(j, j) * noise2_;
    gradient[d + kTimeScale] += (3 * residual2_ * weight * p.space *
                                 gap.square() * (-kRoot3 * gap).exp())
                                    .sum();
    gradient[d + kNoise] += 2 * from_noise;
    gradient[d + kResidual] += 2 * from_residual;
    gradient[d + kScale] += 2 * (from_residual + from_learnt + from_noise);
    gradient[d + kLearnt] += 2 * from_learnt;
  }
}

}  // namespace dtune
