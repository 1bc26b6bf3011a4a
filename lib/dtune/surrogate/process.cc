#include "dtune/surrogate/process.h"

#include <algorithm>
#include <cmath>

#include <Eigen/Dense>

#include "dtune/base/error.h"
#include "dtune/surrogate/bfgs.h"
#include "dtune/surrogate/matern.h"

namespace dtune {
namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

// The offset's prior N(.85, .3^2): accuracies; other metrics come mapped.
constexpr double kOffsetMean = 0.85;
constexpr double kOffsetVariance = 0.09;
// Keeps Cholesky's factor real where observations repeat.
constexpr double kJitter = 1e-10;

// Positions in the vector of logarithms of hyper-parameters; the d length
// scales of the dimensions come first.
enum Hyper : int { kTimeScale, kNoise, kResidual, kScale, kLearnt, kShared };

// Mean and deviation of the lognormal priors.
struct LogPrior {
  double log_median;
  double deviation;
};

LogPrior hyper_prior(Eigen::Index i, Eigen::Index dimensions) {
  if (i < dimensions) return {std::log(0.5), 0.8};
  switch (static_cast<Hyper>(i - dimensions)) {
    case kTimeScale:
      return {std::log(0.8), 0.8};
    case kNoise:
      return {std::log(0.03), 0.8};
    case kResidual:
      return {std::log(0.3), 0.8};
    case kScale:
      return {std::log(0.1), 1.5};
    default:
      return {0.0, 0.5};
  }
}

}  // namespace

struct FreezeThawProcess::Impl {
  std::shared_ptr<const CubePrior> prior;
  Eigen::Index dimensions;
  Eigen::Index components;
  Vector log_hyper;

  // Of the n observations.
  std::vector<ProcessObservation> seen;
  Matrix units;     // [d][n]
  Vector log_time;  // [n]
  Vector mean;      // [n] m
  Matrix phi;       // [k][n]
  Matrix learnt;    // [n][n] phi . phi
  Vector values;    // [n]

  Eigen::LLT<Matrix> factor;
  Vector weights;  // factor^-1 (y - mean)

  double hyper(Hyper which) const {
    return std::exp(log_hyper[dimensions + which]);
  }

  double evaluate_prior(const ProcessInput& input, double* out) const {
    if (!prior) return -1;
    return prior->evaluate(input.cube, input.time,
                           {out, static_cast<size_t>(components)});
  }

  void append(const ProcessObservation& o);
  Matrix covariance(const Vector& log_h) const;
  double objective(const Vector& log_h, Vector* gradient) const;
  void add_likelihood_gradient(const Vector& log_h, const Matrix& w,
                               Vector& gradient) const;
  void factorise();
};

void FreezeThawProcess::Impl::append(const ProcessObservation& o) {
  const auto n = static_cast<Eigen::Index>(seen.size());
  DTUNE_CHECK(o.input.unit.size() == static_cast<size_t>(dimensions));
  seen.push_back(o);
  units.conservativeResize(dimensions, n + 1);
  for (Eigen::Index i = 0; i < dimensions; ++i) {
    units(i, n) = o.input.unit[static_cast<size_t>(i)];
  }
  log_time.conservativeResize(n + 1);
  log_time[n] = std::log(o.input.time);
  mean.conservativeResize(n + 1);
  phi.conservativeResize(components, n + 1);
  Vector row(components);
  mean[n] = evaluate_prior(o.input, row.data());
  phi.col(n) = row;
  values.conservativeResize(n + 1);
  values[n] = o.value;
  learnt.conservativeResize(n + 1, n + 1);
  const Vector products = phi.transpose() * row;
  learnt.col(n) = products;
  learnt.row(n) = products.transpose();
}

// Lower triangle only.
Matrix FreezeThawProcess::Impl::covariance(const Vector& log_h) const {
  const Eigen::Index n = values.size();
  const Vector h = log_h.array().exp();
  const Vector inverse = h.head(dimensions).cwiseInverse();
  const double time_scale = h[dimensions + kTimeScale];
  const double s2 = h[dimensions + kScale] * h[dimensions + kScale];
  const double r2 = s2 * h[dimensions + kResidual] * h[dimensions + kResidual];
  const double g2 = s2 * h[dimensions + kLearnt] * h[dimensions + kLearnt];
  const double noise = s2 * h[dimensions + kNoise] * h[dimensions + kNoise];
  const Matrix scaled = inverse.asDiagonal() * units;
  Matrix k(n, n);
  for (Eigen::Index j = 0; j < n; ++j) {
    for (Eigen::Index i = j; i < n; ++i) {
      const double distance = (scaled.col(i) - scaled.col(j)).norm();
      const double gap = std::abs(log_time[i] - log_time[j]) / time_scale;
      k(i, j) = g2 * learnt(i, j) + r2 * matern32(distance) * matern32(gap) +
                kOffsetVariance;
    }
    k(j, j) += noise + kJitter;
  }
  return k;
}

// Negative log posterior of the hyper-parameters, constants left out.
double FreezeThawProcess::Impl::objective(const Vector& log_h,
                                          Vector* gradient) const {
  const Eigen::Index n = values.size();
  const Eigen::LLT<Matrix> llt(covariance(log_h));
  if (llt.info() != Eigen::Success) return INFINITY;
  const double s = std::exp(log_h[dimensions + kScale]);
  const Vector residual = values.array() - kOffsetMean - s * mean.array();
  const Vector alpha = llt.solve(residual);
  double value = 0.5 * residual.dot(alpha) +
                 llt.matrixLLT().diagonal().array().log().sum();
  for (Eigen::Index i = 0; i < log_h.size(); ++i) {
    const LogPrior p = hyper_prior(i, dimensions);
    const double z = (log_h[i] - p.log_median) / p.deviation;
    value += 0.5 * z * z;
  }
  if (gradient == nullptr) return value;

  // d/dh log likelihood = -1/2 tr((K^-1 - alpha alpha^T) dK/dh).
  const Matrix w =
      llt.solve(Matrix::Identity(n, n)) - alpha * alpha.transpose();
  gradient->setZero(log_h.size());
  add_likelihood_gradient(log_h, w, *gradient);
  *gradient *= 0.5;
  (*gradient)[dimensions + kScale] -= s * alpha.dot(mean);
  for (Eigen::Index i = 0; i < log_h.size(); ++i) {
    const LogPrior p = hyper_prior(i, dimensions);
    (*gradient)[i] += (log_h[i] - p.log_median) / (p.deviation * p.deviation);
  }
  return value;
}

void FreezeThawProcess::Impl::add_likelihood_gradient(const Vector& log_h,
                                                      const Matrix& w,
                                                      Vector& gradient) const {
  const Eigen::Index n = values.size();
  const Vector h = log_h.array().exp();
  const Vector inverse2 = h.head(dimensions).cwiseInverse().cwiseAbs2();
  const double time_scale = h[dimensions + kTimeScale];
  const double s2 = h[dimensions + kScale] * h[dimensions + kScale];
  const double r2 = s2 * h[dimensions + kResidual] * h[dimensions + kResidual];
  const double g2 = s2 * h[dimensions + kLearnt] * h[dimensions + kLearnt];
  const double noise = s2 * h[dimensions + kNoise] * h[dimensions + kNoise];
  for (Eigen::Index j = 0; j < n; ++j) {
    for (Eigen::Index i = j; i < n; ++i) {
      const double weight = i == j ? w(i, j) : 2 * w(i, j);
      const Vector squares =
          (units.col(i) - units.col(j)).cwiseAbs2().cwiseProduct(inverse2);
      const double distance = std::sqrt(squares.sum());
      const double gap = std::abs(log_time[i] - log_time[j]) / time_scale;
      const double in_time = matern32(gap);
      const double residual = r2 * matern32(distance) * in_time;
      const double from_prior = g2 * learnt(i, j);
      const double own_noise = i == j ? noise : 0;
      // matern32_slope(r) / r^2, finite at 0.
      const double slope = 3 * std::exp(-std::sqrt(3.0) * distance);
      gradient.head(dimensions) += weight * r2 * in_time * slope * squares;
      double* g = &gradient[dimensions];
      g[kTimeScale] += weight * r2 * matern32(distance) * matern32_slope(gap);
      g[kNoise] += 2 * weight * own_noise;
      g[kResidual] += 2 * weight * residual;
      g[kScale] += 2 * weight * (residual + from_prior + own_noise);
      g[kLearnt] += 2 * weight * from_prior;
    }
  }
}

void FreezeThawProcess::Impl::factorise() {
  factor.compute(covariance(log_hyper));
  DTUNE_CHECK(factor.info() == Eigen::Success);
  const Vector residual =
      values.array() - kOffsetMean - hyper(kScale) * mean.array();
  weights = factor.solve(residual);
}

FreezeThawProcess::FreezeThawProcess(std::shared_ptr<const CubePrior> prior,
                                     size_t dimensions)
    : impl_(std::make_unique<Impl>()) {
  impl_->components =
      prior ? static_cast<Eigen::Index>(prior->components()) : 0;
  impl_->prior = std::move(prior);
  impl_->dimensions = static_cast<Eigen::Index>(dimensions);
  impl_->log_hyper.resize(impl_->dimensions + kShared);
  for (Eigen::Index i = 0; i < impl_->log_hyper.size(); ++i) {
    impl_->log_hyper[i] = hyper_prior(i, impl_->dimensions).log_median;
  }
}

FreezeThawProcess::~FreezeThawProcess() = default;
FreezeThawProcess::FreezeThawProcess(FreezeThawProcess&&) noexcept = default;
FreezeThawProcess& FreezeThawProcess::operator=(FreezeThawProcess&&) noexcept =
    default;

FreezeThawProcess FreezeThawProcess::copy() const {
  FreezeThawProcess other(impl_->prior,
                          static_cast<size_t>(impl_->dimensions));
  *other.impl_ = *impl_;
  return other;
}

void FreezeThawProcess::observe(const ProcessObservation& observation) {
  impl_->append(observation);
  impl_->factorise();
}

size_t FreezeThawProcess::size() const { return impl_->seen.size(); }

void FreezeThawProcess::fit(int iterations) {
  if (size() == 0) return;
  impl_->log_hyper = minimise(
      [this](const Vector& x, Vector* gradient) {
        return impl_->objective(x, gradient);
      },
      impl_->log_hyper, {.iterations = iterations});
  impl_->factorise();
}

std::vector<Gaussian> FreezeThawProcess::predict(
    std::span<const ProcessInput> inputs) const {
  const Impl& m = *impl_;
  const auto q = static_cast<Eigen::Index>(inputs.size());
  const Eigen::Index n = m.values.size();
  const double s = m.hyper(kScale);
  const double s2 = s * s;
  const double r2 = s2 * m.hyper(kResidual) * m.hyper(kResidual);
  const double g2 = s2 * m.hyper(kLearnt) * m.hyper(kLearnt);
  const double time_scale = m.hyper(kTimeScale);
  const Vector inverse =
      (-m.log_hyper.head(m.dimensions).array()).exp().matrix();
  const Matrix scaled = inverse.asDiagonal() * m.units;

  Matrix phi(m.components, q);
  Vector mean(q);
  for (Eigen::Index j = 0; j < q; ++j) {
    Vector row(m.components);
    mean[j] = m.evaluate_prior(inputs[static_cast<size_t>(j)], row.data());
    phi.col(j) = row;
  }
  Matrix cross = g2 * (m.phi.transpose() * phi);  // [n][q]
  if (m.components == 0) cross.setZero(n, q);
  for (Eigen::Index j = 0; j < q; ++j) {
    const ProcessInput& input = inputs[static_cast<size_t>(j)];
    const Vector at = Eigen::Map<const Vector>(input.unit.data(), m.dimensions)
                          .cwiseProduct(inverse);
    const double log_time = std::log(input.time);
    for (Eigen::Index i = 0; i < n; ++i) {
      const double distance = (scaled.col(i) - at).norm();
      const double gap = std::abs(m.log_time[i] - log_time) / time_scale;
      cross(i, j) += r2 * matern32(distance) * matern32(gap) + kOffsetVariance;
    }
  }
  std::vector<Gaussian> result(inputs.size());
  Vector means = s * mean.array() + kOffsetMean;
  if (n > 0) {
    means += cross.transpose() * m.weights;
    m.factor.matrixL().solveInPlace(cross);
  }
  for (Eigen::Index j = 0; j < q; ++j) {
    const double before = g2 * phi.col(j).squaredNorm() + r2 + kOffsetVariance;
    const double explained = n > 0 ? cross.col(j).squaredNorm() : 0;
    result[static_cast<size_t>(j)] = {means[j],
                                      std::max(before - explained, 1e-12)};
  }
  return result;
}

double FreezeThawProcess::noise() const {
  return impl_->hyper(kScale) * impl_->hyper(kNoise);
}

double FreezeThawProcess::learnt_share() const {
  if (!impl_->prior || size() == 0) return 0;
  const double g2 = impl_->hyper(kLearnt) * impl_->hyper(kLearnt);
  const double learnt = g2 * impl_->learnt.diagonal().mean();
  const double own = impl_->hyper(kResidual) * impl_->hyper(kResidual);
  return learnt / (learnt + own);
}

}  // namespace dtune
