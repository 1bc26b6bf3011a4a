#include "dtune/surrogate/freeze_thaw_kernel.h"

#include <algorithm>
#include <cmath>

namespace dtune {
namespace {

using Eigen::ArrayXd;
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

// The Matern covariance with nu = 3/2 is (1 + sqrt(3) r) times this.
ArrayXd decay_of(const ArrayXd& r) { return (-kRoot3 * r).exp(); }

ArrayXd matern32_of(const ArrayXd& r) { return (1 + kRoot3 * r) * decay_of(r); }

// Between the rows of `a` and those of `b`, as |a|^2 - 2 ab + |b|^2: rounding
// leaves some 1e-16 of points that are one, which the covariance, flat at 0,
// does not show. [na][nb]
MatrixXd squared_distances(const MatrixXd& a, const MatrixXd& b) {
  MatrixXd d = -2 * (a * b.transpose());
  d.colwise() += a.rowwise().squaredNorm();
  d.rowwise() += b.rowwise().squaredNorm().transpose();
  return d.cwiseMax(0.0);
}

// sum_i>=j slope_ij (x_i - x_j)^2 for each column of `x`, `slope` being a lower
// triangle.
void add_weighted_squares(const MatrixXd& x, const MatrixXd& slope,
                          VectorXd& gradient) {
  const VectorXd sums =
      slope.rowwise().sum() + slope.colwise().sum().transpose();
  const MatrixXd moved = slope * x;
  for (Index d = 0; d < x.cols(); ++d) {
    gradient[d] +=
        sums.dot(x.col(d).cwiseAbs2()) - 2 * x.col(d).dot(moved.col(d));
  }
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
  training.conservativeResize(n);
}

void ProcessInputs::set(Index i, const ProcessInput& input,
                        const CubePrior* prior) {
  for (Index d = 0; d < unit.cols(); ++d) {
    unit(i, d) = input.unit[static_cast<size_t>(d)];
  }
  log_time[i] = std::log(input.time);
  training[i] = input.training;
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
  some.training = training.segment(from, count);
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
  some.training = training(which);
  return some;
}

// The times of all inputs of `a` as seen from one: few inputs differ in it.
struct ProcessKernel::Moment {
  double log_time;
  Array gap;    // in time scales
  Array decay;  // of it
  Array matern;
};

// Input j of `b` against those of `a` from some index on.
struct ProcessKernel::Column {
  Index j = 0;
  Array distance;  // scaled, all dimensions
  Array outside;   // of the learnt part: in the dimensions that the cube does
                   // not know, and beyond its ends; empty where there are none
  const Moment* moment = nullptr;
};

ProcessKernel::ProcessKernel(const std::vector<ProcessDimension>& dimensions,
                             const VectorXd& hyper, bool trainings_differ)
    : dimensions_(dimensions) {
  const auto d = static_cast<Index>(dimensions.size());
  inverse_ = (-hyper.head(d).array()).exp();
  const auto h = [&](Hyper which) { return std::exp(hyper[d + which]); };
  const double s2 = h(scale_at) * h(scale_at);
  time_scale_ = h(time_scale_at);
  residual2_ = s2 * h(residual_at) * h(residual_at);
  learnt2_ = s2 * h(learnt_at) * h(learnt_at);
  noise2_ = s2 * h(noise_at) * h(noise_at);
  training2_ = trainings_differ ? s2 * h(training_at) * h(training_at) : 0;
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

// `a` as seen from `log_time`, if it was not seen so before.
const ProcessKernel::Moment& ProcessKernel::moment_at(
    const ProcessInputs& a, double log_time,
    std::deque<Moment>& moments) const {
  for (const Moment& m : moments) {
    if (m.log_time == log_time) return m;
  }
  Moment m;
  m.log_time = log_time;
  m.gap = (a.log_time.array() - log_time).abs() / time_scale_;
  m.decay = decay_of(m.gap);
  m.matern = (1 + kRoot3 * m.gap) * m.decay;
  return moments.emplace_back(std::move(m));
}

void ProcessKernel::add_categories(const ProcessInputs& a, Index from,
                                   const ProcessInputs& b, Index j,
                                   Array& inside, Array& outside) const {
  for (Index d = 0; d < inverse_.size(); ++d) {
    const ProcessDimension& dimension = dimensions_[static_cast<size_t>(d)];
    if (!dimension.categorical) continue;
    add_squares(a, from, b, j, d, dimension.recorded ? inside : outside);
  }
}

ArrayXd ProcessKernel::same_training(const ProcessInputs& a, Index from,
                                     const ProcessInputs& b, Index j) const {
  if (training2_ == 0 || b.training[j] == kNoTraining) return {};
  return (a.training.tail(a.size() - from).array() == b.training[j])
      .cast<double>();
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

// Calls visit(column) for every input of `b`; with those of `a` from the same
// number on where `triangle`, which is for a == b.
template <typename Visit>
void ProcessKernel::for_each_column(const ProcessInputs& a,
                                    const ProcessInputs& b, bool triangle,
                                    const Visit& visit) const {
  const MatrixXd a_inside = scaled(a, true), b_inside = scaled(b, true);
  const MatrixXd a_outside = scaled(a, false), b_outside = scaled(b, false);
  const bool apart =
      a.phi.rows() > 0 && (any_unrecorded_ || a.any_beyond || b.any_beyond);
  constexpr Index kBlock = 32;  // columns that stay in the cache
  std::deque<Moment> moments;
  Column column;
  Array recorded, others;
  for (Index from = 0; from < b.size(); from += kBlock) {
    const Index count = std::min(kBlock, b.size() - from);
    const Index rows = triangle ? a.size() - from : a.size();
    const MatrixXd inside = squared_distances(a_inside.bottomRows(rows),
                                              b_inside.middleRows(from, count));
    const MatrixXd outside = squared_distances(
        a_outside.bottomRows(rows), b_outside.middleRows(from, count));
    for (Index i = 0; i < count; ++i) {
      const Index j = column.j = from + i;
      const Index size = triangle ? rows - i : rows;
      recorded = inside.col(i).tail(size);
      others = outside.col(i).tail(size);
      add_categories(a, a.size() - size, b, j, recorded, others);
      column.distance = (recorded + others).sqrt();
      if (apart) {
        add_beyond(a, a.size() - size, b, j, others);
        column.outside = others.sqrt();
      }
      column.moment = &moment_at(a, b.log_time[j], moments);
      visit(column);
    }
  }
}

MatrixXd ProcessKernel::cross(const ProcessInputs& a,
                              const ProcessInputs& b) const {
  MatrixXd k(a.size(), b.size());
  if (a.phi.rows() > 0) {
    k.noalias() = learnt2_ * (a.phi.transpose() * b.phi);
  } else {
    k.setZero();
  }
  for_each_column(a, b, false, [&](const Column& c) {
    auto column = k.col(c.j).array();
    if (c.outside.size() > 0) column *= matern32_of(c.outside);
    column +=
        residual2_ * c.moment->matern * matern32_of(c.distance) + constant2_;
    const Array same = same_training(a, 0, b, c.j);
    if (same.size() > 0) column += training2_ * same * c.moment->matern;
  });
  return k;
}

MatrixXd ProcessKernel::self(const ProcessInputs& a,
                             const MatrixXd& products) const {
  const Index n = a.size();
  MatrixXd k(n, n);
  for_each_column(a, a, true, [&](const Column& c) {
    const Index size = n - c.j;
    auto column = k.col(c.j).tail(size).array();
    column = learnt2_ * products.col(c.j).tail(size).array();
    if (c.outside.size() > 0) column *= matern32_of(c.outside);
    column +=
        residual2_ * c.moment->matern.tail(size) * matern32_of(c.distance) +
        constant2_;
    const Array same = same_training(a, c.j, a, c.j);
    if (same.size() > 0) {
      column += training2_ * same * c.moment->matern.tail(size);
    }
    k(c.j, c.j) += noise();
  });
  return k;
}

double ProcessKernel::noise() const { return noise2_ + kJitter; }

VectorXd ProcessKernel::times_noise(const ProcessInputs& a,
                                    const VectorXd& v) const {
  VectorXd result = noise() * v;
  std::deque<Moment> moments;
  for (Index j = 0; j < a.size(); ++j) {
    const Array same = same_training(a, 0, a, j);
    if (same.size() == 0) continue;
    const Moment& moment = moment_at(a, a.log_time[j], moments);
    result.array() += training2_ * v[j] * same * moment.matern;
  }
  return result;
}

VectorXd ProcessKernel::variance(const ProcessInputs& a) const {
  VectorXd v = VectorXd::Constant(a.size(), residual2_ + constant2_);
  v.array() += training2_ * (a.training.array() != kNoTraining).cast<double>();
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
  // -r dMatern/dr = 3 r^2 exp(-sqrt(3) r), and r^2 is a sum over dimensions.
  MatrixXd slopes = MatrixXd::Zero(n, n);
  MatrixXd others = MatrixXd::Zero(n, n);  // of dimensions not recorded
  Array square;
  for_each_column(a, a, true, [&](const Column& c) {
    const Index size = n - c.j;
    Array weight = 2 * w.col(c.j).tail(size).array();
    weight[0] = w(c.j, c.j);
    const Array decay = decay_of(c.distance);
    // Of what decays over training time.
    Array in_time = residual2_ * weight * (1 + kRoot3 * c.distance) * decay;
    const Array time = c.moment->matern.tail(size);
    Array learnt = learnt2_ * products.col(c.j).tail(size).array() * weight;
    slopes.col(c.j).tail(size) = 3 * residual2_ * weight * time * decay;
    others.col(c.j).tail(size) = slopes.col(c.j).tail(size);
    if (c.outside.size() > 0) {
      const Array apart = decay_of(c.outside);
      others.col(c.j).tail(size).array() += 3 * learnt * apart;
      learnt *= (1 + kRoot3 * c.outside) * apart;
    }
    for (Index i = 0; i < d; ++i) {
      const ProcessDimension& dimension = dimensions_[static_cast<size_t>(i)];
      if (!dimension.categorical) continue;
      square.setZero(size);
      add_squares(a, c.j, a, c.j, i, square);
      gradient[i] += square.matrix().dot(
          (dimension.recorded ? slopes : others).col(c.j).tail(size));
    }
    const double from_learnt = learnt.sum();
    const double from_residual = (in_time * time).sum();
    const double from_noise = w(c.j, c.j) * noise2_;
    double from_training = 0;
    const Array same = same_training(a, c.j, a, c.j);
    if (same.size() > 0) {
      const Array own = training2_ * weight * same;
      from_training = (own * time).sum();
      in_time += own;
    }
    gradient[d + time_scale_at] +=
        (3 * in_time * c.moment->gap.tail(size).square() *
         c.moment->decay.tail(size))
            .sum();
    gradient[d + training_at] += 2 * from_training;
    gradient[d + noise_at] += 2 * from_noise;
    gradient[d + residual_at] += 2 * from_residual;
    gradient[d + scale_at] +=
        2 * (from_residual + from_learnt + from_noise + from_training);
    gradient[d + learnt_at] += 2 * from_learnt;
  });
  add_weighted_squares(scaled(a, true), slopes, gradient);
  add_weighted_squares(scaled(a, false), others, gradient);
}

}  // namespace dtune
