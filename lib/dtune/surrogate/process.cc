#include "dtune/surrogate/process.h"

#include <algorithm>
#include <cmath>

#include <Eigen/Dense>

#include "dtune/base/error.h"
#include "dtune/surrogate/bfgs.h"
#include "dtune/surrogate/process_kernel.h"

namespace dtune {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Of a prediction: few observations can fit a process that is sure of itself
// beyond all reason.
constexpr double kLeastVariance = 1e-6;

// Median (of the logarithm, save for the map's top) and deviation.
struct HyperPrior {
  double median;
  double deviation;
};

// The map's: medians and spreads over the recorded studies. Without a prior
// the residual has to say all that the learnt part says otherwise.
HyperPrior hyper_prior(Index i, Index dimensions, bool learnt) {
  if (i < dimensions) return {std::log(0.5), 0.8};
  switch (static_cast<Hyper>(i - dimensions)) {
    case kTimeScale:
      return {std::log(0.8), 0.8};
    case kNoise:
      return {std::log(0.03), 0.8};
    case kResidual:
      return {std::log(learnt ? 0.3 : 0.6), 0.8};
    case kScale:
      return {0.0, 0.3};
    case kTop:
      return {0.87, 0.12};
    case kWarpScale:
      return {std::log(0.12), 1.0};
    default:
      return {0.0, 0.5};
  }
}

}  // namespace

struct FreezeThawProcess::Impl {
  std::shared_ptr<const CubePrior> prior;
  std::vector<ProcessDimension> dimensions;
  VectorXd hyper;
  Warp warp;

  ProcessInputs inputs;
  std::vector<double> values;  // y; imagined inputs have none
  VectorXd z;
  MatrixXd products;  // phi . phi

  Eigen::LLT<MatrixXd> factor;
  VectorXd weights;  // factor^-1 (z - s m)

  Index d() const { return static_cast<Index>(dimensions.size()); }
  double at(Hyper which) const { return std::exp(hyper[d() + which]); }
  ProcessKernel kernel() const { return {dimensions, hyper}; }

  Warp warp_of(const VectorXd& h) const {
    return {h[d() + kTop], std::exp(h[d() + kWarpScale])};
  }
  void append(const ProcessInput& input);
  double objective(const VectorXd& h, VectorXd* gradient) const;
  double log_prior(const VectorXd& h, VectorXd* gradient) const;
  void add_warp_gradient(const VectorXd& h, const VectorXd& alpha,
                         VectorXd& gradient) const;
  void factorise();
};

void FreezeThawProcess::Impl::append(const ProcessInput& input) {
  DTUNE_CHECK(input.unit.size() == dimensions.size());
  const Index n = inputs.size();
  inputs.append(input, prior.get());
  products.conservativeResize(n + 1, n + 1);
  if (inputs.phi.rows() == 0) {
    products.col(n).setZero();
  } else {
    products.col(n) = inputs.phi.transpose() * inputs.phi.col(n);
  }
  products.row(n) = products.col(n).transpose();
  z.conservativeResize(n + 1);
}

double FreezeThawProcess::Impl::log_prior(const VectorXd& h,
                                          VectorXd* gradient) const {
  double sum = 0;
  for (Index i = 0; i < h.size(); ++i) {
    const HyperPrior p = hyper_prior(i, d(), prior != nullptr);
    const double off = (h[i] - p.median) / p.deviation;
    sum -= 0.5 * off * off;
    if (gradient != nullptr) (*gradient)[i] -= off / p.deviation;
  }
  return sum;
}

// d/dh of -1/2 r' K^-1 r + sum ln dz/dy, for the map's two parameters.
void FreezeThawProcess::Impl::add_warp_gradient(const VectorXd& h,
                                                const VectorXd& alpha,
                                                VectorXd& gradient) const {
  const Warp map = warp_of(h);
  for (Index i = 0; i < alpha.size(); ++i) {
    const double x = (values[static_cast<size_t>(i)] - map.top) / map.scale;
    const double slope = warp_unit_slope(x);
    const double bend = warp_unit_bend(x);
    gradient[d() + kTop] += (alpha[i] * slope - bend) / map.scale;
    gradient[d() + kWarpScale] += (alpha[i] * slope - bend) * x - 1;
  }
}

// Negative log posterior of the hyper-parameters, constants left out.
double FreezeThawProcess::Impl::objective(const VectorXd& h,
                                          VectorXd* gradient) const {
  const Index n = inputs.size();
  const ProcessKernel k(dimensions, h);
  const Eigen::LLT<MatrixXd> llt(k.self(inputs, products));
  if (llt.info() != Eigen::Success) return INFINITY;
  const double s = std::exp(h[d() + kScale]);
  const Warp map = warp_of(h);
  VectorXd residual(n);
  double jacobian = 0;
  for (Index i = 0; i < n; ++i) {
    const double y = values[static_cast<size_t>(i)];
    residual[i] = map(y) - s * inputs.mean[i];
    jacobian += map.log_slope(y);
  }
  const VectorXd alpha = llt.solve(residual);
  if (gradient != nullptr) gradient->setZero(h.size());
  const double log_likelihood = -0.5 * residual.dot(alpha) -
                                llt.matrixLLT().diagonal().array().log().sum() +
                                jacobian;
  const double value = -log_likelihood - log_prior(h, gradient);
  if (gradient == nullptr) return value;

  // d/dh log likelihood = -1/2 tr((K^-1 - alpha alpha^T) dK/dh).
  MatrixXd w = llt.solve(MatrixXd::Identity(n, n));
  w.noalias() -= alpha * alpha.transpose();
  w *= -0.5;
  k.add_gradient(inputs, products, w, *gradient);
  (*gradient)[d() + kScale] += s * alpha.dot(inputs.mean);
  add_warp_gradient(h, alpha, *gradient);
  *gradient *= -1;
  return value;
}

void FreezeThawProcess::Impl::factorise() {
  factor.compute(kernel().self(inputs, products));
  DTUNE_CHECK(factor.info() == Eigen::Success);
  const VectorXd residual = z - at(kScale) * inputs.mean;
  weights = factor.solve(residual);
}

FreezeThawProcess::FreezeThawProcess(std::shared_ptr<const CubePrior> prior,
                                     std::vector<ProcessDimension> dimensions)
    : impl_(std::make_unique<Impl>()) {
  DTUNE_CHECK(!dimensions.empty());
  impl_->inputs.reserve_columns(
      static_cast<Index>(dimensions.size()),
      prior ? static_cast<Index>(prior->components()) : 0);
  impl_->prior = std::move(prior);
  impl_->dimensions = std::move(dimensions);
  impl_->hyper.resize(impl_->d() + kShared);
  for (Index i = 0; i < impl_->hyper.size(); ++i) {
    impl_->hyper[i] =
        hyper_prior(i, impl_->d(), impl_->prior != nullptr).median;
  }
  impl_->warp = impl_->warp_of(impl_->hyper);
}

FreezeThawProcess::FreezeThawProcess(std::shared_ptr<const CubePrior> prior,
                                     size_t dimensions)
    : FreezeThawProcess(std::move(prior),
                        std::vector<ProcessDimension>(dimensions)) {}

FreezeThawProcess::~FreezeThawProcess() = default;
FreezeThawProcess::FreezeThawProcess(FreezeThawProcess&&) noexcept = default;
FreezeThawProcess& FreezeThawProcess::operator=(FreezeThawProcess&&) noexcept =
    default;

FreezeThawProcess FreezeThawProcess::copy() const {
  FreezeThawProcess other(impl_->prior, impl_->dimensions);
  *other.impl_ = *impl_;
  return other;
}

void FreezeThawProcess::observe(const ProcessObservation& observation) {
  DTUNE_CHECK(std::isfinite(observation.value));
  impl_->append(observation.input);
  impl_->values.push_back(observation.value);
  impl_->z[impl_->z.size() - 1] = impl_->warp(observation.value);
  impl_->factorise();
}

void FreezeThawProcess::imagine(std::span<const ProcessInput> inputs) {
  if (inputs.empty()) return;
  const std::vector<Gaussian> expected = predict(inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    impl_->append(inputs[i]);
    impl_->z[impl_->z.size() - 1] = expected[i].mean;
  }
  impl_->factorise();
}

void FreezeThawProcess::replace_observations(
    std::span<const ProcessObservation> observations) {
  const Index components = impl_->inputs.phi.rows();
  impl_->inputs = ProcessInputs();
  impl_->inputs.reserve_columns(impl_->d(), components);
  impl_->values.clear();
  impl_->z.resize(0);
  impl_->products.resize(0, 0);
  for (const ProcessObservation& o : observations) {
    impl_->append(o.input);
    impl_->values.push_back(o.value);
    impl_->z[impl_->z.size() - 1] = impl_->warp(o.value);
  }
  if (!observations.empty()) impl_->factorise();
}

size_t FreezeThawProcess::size() const {
  return static_cast<size_t>(impl_->inputs.size());
}

void FreezeThawProcess::fit(int iterations) {
  if (size() == 0) return;
  DTUNE_CHECK(impl_->values.size() == size());
  impl_->hyper = minimise(
      [this](const VectorXd& x, VectorXd* gradient) {
        return impl_->objective(x, gradient);
      },
      impl_->hyper, {.iterations = iterations});
  impl_->warp = impl_->warp_of(impl_->hyper);
  for (size_t i = 0; i < impl_->values.size(); ++i) {
    impl_->z[static_cast<Index>(i)] = impl_->warp(impl_->values[i]);
  }
  impl_->factorise();
}

std::vector<Gaussian> FreezeThawProcess::predict(
    std::span<const ProcessInput> queries) const {
  const Impl& m = *impl_;
  ProcessInputs at;
  at.reserve_columns(m.d(), m.inputs.phi.rows());
  at.assign(queries, m.prior.get());
  const ProcessKernel k = m.kernel();
  VectorXd means = m.at(kScale) * at.mean;
  VectorXd variances = k.variance(at);
  if (m.inputs.size() > 0) {
    MatrixXd cross = k.cross(m.inputs, at);  // [n][q]
    means.noalias() += cross.transpose() * m.weights;
    m.factor.matrixL().solveInPlace(cross);
    variances -= cross.colwise().squaredNorm().transpose();
  }
  std::vector<Gaussian> result(queries.size());
  for (size_t j = 0; j < queries.size(); ++j) {
    const auto i = static_cast<Index>(j);
    result[j] = {means[i], std::max(variances[i], kLeastVariance)};
  }
  return result;
}

const Warp& FreezeThawProcess::warp() const { return impl_->warp; }

double FreezeThawProcess::scale() const { return impl_->at(kScale); }

double FreezeThawProcess::noise() const {
  return impl_->at(kScale) * impl_->at(kNoise);
}

double FreezeThawProcess::learnt_share() const {
  if (!impl_->prior || size() == 0) return 0;
  const double g2 = impl_->at(kLearnt) * impl_->at(kLearnt);
  const double learnt = g2 * impl_->products.diagonal().mean();
  const double own = impl_->at(kResidual) * impl_->at(kResidual);
  return learnt / (learnt + own);
}

}  // namespace dtune
