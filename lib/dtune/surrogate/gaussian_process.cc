#include "dtune/surrogate/gaussian_process.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "dtune/base/error.h"
#include "dtune/surrogate/bfgs.h"

namespace dtune {
namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;
using Eigen::Index;

// Below this variance the noise only keeps Cholesky's factor real.
constexpr double kLeastNoise = 1e-6;
// Restarts and the search for a good basin use at most so many observations;
// all of them only polish what was found.
constexpr Index kRoughObservations = 60;

struct LogNormal {
  double location;
  double deviation;
};

LogNormal length_prior(Index dimensions) {
  return {std::numbers::sqrt2 + std::log(double(dimensions)) / 2,
          std::numbers::sqrt3};
}

constexpr LogNormal kNoisePrior = {-4, 1};

// Minus the log density of exp(x), constants left out, and its derivative by x.
double surprise(const LogNormal& prior, double x) {
  const double z = (x - prior.location) / prior.deviation;
  return 0.5 * z * z + x;
}

double surprise_slope(const LogNormal& prior, double x) {
  return (x - prior.location) / (prior.deviation * prior.deviation) + 1;
}

// The Matern covariance of a scaled distance r >= 0 (Rasmussen and Williams
// 2006, Gaussian Processes for Machine Learning, eq. 4.17).
double matern52(double r) {
  const double a = std::sqrt(5.0) * r;
  return (1 + a + a * a / 3) * std::exp(-a);
}

// -1 / r times its derivative, finite at 0.
double steepness(double r) {
  const double a = std::sqrt(5.0) * r;
  return 5.0 / 3.0 * (1 + a) * std::exp(-a);
}

// The constant that maximises the likelihood.
double profiled_mean(const CovarianceFactor& factor, const Vector& y) {
  const Vector ones = factor.solve(Vector::Ones(y.size()));
  return ones.dot(y) / ones.sum();
}

}  // namespace

GaussianProcess::GaussianProcess(std::vector<bool> categories)
    : categories_(std::move(categories)) {}

double GaussianProcess::squared_gap(Index axis, double a, double b) const {
  if (categories_[size_t(axis)]) return a == b ? 0 : 1;
  return (a - b) * (a - b);
}

// Lower triangle only.
Matrix GaussianProcess::covariance(const Matrix& x,
                                   const Vector& log_hyper) const {
  const Index n = x.cols();
  const Vector precision =
      (-2 * log_hyper.head(dimensions())).array().exp().matrix();
  const double noise = kLeastNoise + std::exp(log_hyper[dimensions()]);
  Matrix k(n, n);
  for (Index j = 0; j < n; ++j) {
    for (Index i = j; i < n; ++i) {
      double square = 0;
      for (Index a = 0; a < dimensions(); ++a) {
        square += precision[a] * squared_gap(a, x(a, i), x(a, j));
      }
      k(i, j) = matern52(std::sqrt(square));
    }
    k(j, j) += noise;
  }
  return k;
}

// Negative log posterior of the hyper-parameters, constants left out.
double GaussianProcess::objective(const Matrix& x, const Vector& y,
                                  const Vector& log_hyper,
                                  Vector* gradient) const {
  const Index d = dimensions();
  CovarianceFactor factor;
  if (!factor.try_compute(covariance(x, log_hyper))) return INFINITY;
  const Vector residual = y.array() - profiled_mean(factor, y);
  const Vector alpha = factor.solve(residual);
  double value = 0.5 * residual.dot(alpha) + factor.half_log_determinant() +
                 surprise(kNoisePrior, log_hyper[d]);
  const LogNormal lengths = length_prior(d);
  for (Index a = 0; a < d; ++a) value += surprise(lengths, log_hyper[a]);
  if (gradient == nullptr) return value;

  // d/dh log likelihood = -1/2 tr((K^-1 - alpha alpha^T) dK/dh); the profiled
  // mean adds nothing, being where the likelihood is flat in it.
  const Matrix w = factor.inverse() - alpha * alpha.transpose();
  gradient->setZero(d + 1);
  add_likelihood_gradient(x, log_hyper, w, *gradient);
  for (Index a = 0; a < d; ++a) {
    (*gradient)[a] += surprise_slope(lengths, log_hyper[a]);
  }
  (*gradient)[d] += surprise_slope(kNoisePrior, log_hyper[d]);
  return value;
}

void GaussianProcess::add_likelihood_gradient(const Matrix& x,
                                              const Vector& log_hyper,
                                              const Matrix& w,
                                              Vector& gradient) const {
  const Index d = dimensions();
  const Vector precision = (-2 * log_hyper.head(d)).array().exp().matrix();
  Vector gaps(d);
  for (Index j = 0; j < x.cols(); ++j) {
    for (Index i = j + 1; i < x.cols(); ++i) {
      for (Index a = 0; a < d; ++a) {
        gaps[a] = precision[a] * squared_gap(a, x(a, i), x(a, j));
      }
      gradient.head(d) += w(i, j) * steepness(std::sqrt(gaps.sum())) * gaps;
    }
  }
  gradient[d] += 0.5 * w.trace() * std::exp(log_hyper[d]);
}

Vector GaussianProcess::fit_from(const Matrix& x, const Vector& y,
                                 const Vector& start, int iterations) const {
  BfgsOptions options;
  options.iterations = iterations;
  options.first_scale = 0.2;
  options.tolerance = 1e-4;
  return minimise(
      [&](const Vector& h, Vector* gradient) {
        return objective(x, y, h, gradient);
      },
      start, options);
}

// Restarts from short, middling and long scales on an even choice of the
// observations, then all of them from the best.
void GaussianProcess::choose_hyper() {
  const Index n = y_.size();
  const Index d = dimensions();
  const Index few = std::min(n, kRoughObservations);
  Matrix x(d, few);
  Vector y(few);
  for (Index i = 0; i < few; ++i) {
    x.col(i) = x_.col(i * n / few);
    y[i] = y_[i * n / few];
  }
  double best = INFINITY;
  for (const double length : {0.35, 1.0, 3.0}) {
    Vector start(d + 1);
    start.head(d).setConstant(std::log(length * std::sqrt(double(d) / 3)));
    start[d] = -5;
    const Vector found = fit_from(x, y, start, 40);
    const double value = objective(x, y, found, nullptr);
    if (value < best || log_hyper_.size() == 0) log_hyper_ = found;
    best = std::min(best, value);
  }
  if (few < n) log_hyper_ = fit_from(x_, y_, log_hyper_, 8);
}

void GaussianProcess::fit(const Matrix& x, const Vector& y) {
  DTUNE_CHECK(x.rows() == dimensions() && x.cols() == y.size() && y.size() > 0);
  offset_ = y.mean();
  const double spread = std::sqrt((y.array() - offset_).square().sum() /
                                  double(std::max<Index>(1, y.size() - 1)));
  scale_ = spread > 0 ? spread : 1;
  x_ = x;
  y_ = (y.array() - offset_) / scale_;
  log_hyper_.resize(0);
  choose_hyper();
  factor_.compute(covariance(x_, log_hyper_));
  mean_ = profiled_mean(factor_, y_);
  factorise();
}

void GaussianProcess::factorise() {
  factor_.compute(covariance(x_, log_hyper_));
  weights_ = factor_.solve((y_.array() - mean_).matrix());
}

void GaussianProcess::fantasize(const Matrix& points) {
  const Index n = y_.size();
  const Index more = points.cols();
  if (more == 0) return;
  Vector y(n + more);
  y.head(n) = y_;
  for (Index i = 0; i < more; ++i) {
    y[n + i] = (predict(points.col(i)).mean - offset_) / scale_;
  }
  x_.conservativeResize(dimensions(), n + more);
  x_.rightCols(more) = points;
  y_ = y;
  factorise();
}

GpPrediction GaussianProcess::predict(const Vector& x, bool slopes) const {
  const Index n = x_.cols();
  const Index d = dimensions();
  const Vector precision = (-2 * log_hyper_.head(d)).array().exp().matrix();
  Vector k(n);
  Vector steep(n);
  for (Index j = 0; j < n; ++j) {
    double square = 0;
    for (Index a = 0; a < d; ++a) {
      square += precision[a] * squared_gap(a, x[a], x_(a, j));
    }
    const double r = std::sqrt(square);
    k[j] = matern52(r);
    if (slopes) steep[j] = steepness(r);
  }
  Vector half = k;
  factor_.solve_lower(half);
  GpPrediction p;
  const double deviation = std::sqrt(std::max(1e-12, 1 - half.squaredNorm()));
  p.mean = offset_ + scale_ * (mean_ + k.dot(weights_));
  p.deviation = scale_ * deviation;
  if (!slopes) return p;
  const Vector whole = factor_.solve(k);
  p.mean_slope = Vector::Zero(d);
  p.deviation_slope = Vector::Zero(d);
  for (Index a = 0; a < d; ++a) {
    if (categories_[size_t(a)]) continue;
    for (Index j = 0; j < n; ++j) {
      const double dk = -steep[j] * precision[a] * (x[a] - x_(a, j));
      p.mean_slope[a] += scale_ * dk * weights_[j];
      p.deviation_slope[a] -= scale_ * dk * whole[j] / deviation;
    }
  }
  return p;
}

Vector GaussianProcess::length_scales() const {
  return log_hyper_.head(dimensions()).array().exp();
}

double GaussianProcess::noise() const {
  return scale_ * std::exp(log_hyper_[dimensions()] / 2);
}

}  // namespace dtune
