#include "dtune/surrogate/freeze_thaw_process.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <Eigen/Core>

#include "dtune/base/error.h"
#include "dtune/surrogate/bfgs.h"
#include "dtune/surrogate/covariance_factor.h"
#include "dtune/surrogate/freeze_thaw_kernel.h"

namespace dtune {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Of a prediction: few observations can fit a process that is sure of itself
// beyond all reason.
constexpr double kLeastVariance = 1e-6;
// Hyper-parameters are as sure after so many observations as they need be.
constexpr Index kMostToFit = 200;
// How often a fit that cannot begin is begun with e times the noise.
constexpr int kMoreNoise = 12;

// Median (of the logarithm, save for the map's top) and deviation.
struct HyperPrior {
  double median;
  double deviation;
};

bool trainings_differ(const CubePrior* prior) {
  return prior != nullptr && prior->training_deviation() > 0;
}

// The map's: medians and spreads over the recorded studies. Without a prior
// the residual has to say all that the learnt part says otherwise. `prior` may
// be null.
HyperPrior hyper_prior(Index i, Index dimensions, const CubePrior* prior) {
  if (i < dimensions) return {std::log(0.5), 0.8};
  const bool learnt = prior != nullptr;
  switch (static_cast<Hyper>(i - dimensions)) {
    case time_scale_at:
      return {std::log(0.8), 0.8};
    case noise_at:
      return {std::log(0.03), 0.8};
    case training_at:
      // Two thirds of the recorded CNNs lie within a factor of 1.5.
      return {
          trainings_differ(prior) ? std::log(prior->training_deviation()) : 0.0,
          0.4};
    case residual_at:
      return {std::log(learnt ? 0.2 : 0.6), 0.8};
    case scale_at:
      return {0.0, 0.3};
    case top_at:
      return {0.87, 0.12};
    case warp_scale_at:
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
  std::vector<double> values;  // y; fantasized inputs have none
  VectorXd z;
  MatrixXd products;  // phi . phi; of a fit's observations alone

  CovarianceFactor factor;
  VectorXd weights;  // factor^-1 (z - s m)

  Index d() const { return static_cast<Index>(dimensions.size()); }
  double at(Hyper which) const { return std::exp(hyper[d() + which]); }
  ProcessKernel kernel() const { return kernel(hyper); }
  ProcessKernel kernel(const VectorXd& h) const {
    return {dimensions, h, trainings_differ(prior.get())};
  }

  Warp warp_of(const VectorXd& h) const {
    return {h[d() + top_at], std::exp(h[d() + warp_scale_at])};
  }
  void append(std::span<const ProcessInput> fresh);
  void add(std::span<const ProcessObservation> observations);
  Impl some(Index count) const;
  void see();
  void take_in(Index from);
  void weigh();
  double objective(const VectorXd& h, VectorXd* gradient) const;
  double log_prior(const VectorXd& h, VectorXd* gradient) const;
  void add_warp_gradient(const VectorXd& h, const VectorXd& alpha,
                         VectorXd& gradient) const;
  void factorise();
};

void FreezeThawProcess::Impl::append(std::span<const ProcessInput> fresh) {
  const Index known = inputs.size();
  const auto more = static_cast<Index>(fresh.size());
  for (const ProcessInput& input : fresh) {
    DTUNE_CHECK(input.unit.size() == dimensions.size());
  }
  inputs.append(fresh, prior.get());
  z.conservativeResize(known + more);
}

void FreezeThawProcess::Impl::add(
    std::span<const ProcessObservation> observations) {
  std::vector<ProcessInput> fresh;
  for (const ProcessObservation& o : observations) {
    DTUNE_CHECK(std::isfinite(o.value));
    fresh.push_back(o.input);
  }
  Index next = inputs.size();
  append(fresh);
  for (const ProcessObservation& o : observations) {
    values.push_back(o.value);
    z[next++] = warp(o.value);
  }
}

// All values, by the map as it is.
void FreezeThawProcess::Impl::see() {
  z.resize(static_cast<Index>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    z[static_cast<Index>(i)] = warp(values[i]);
  }
}

// What a fit needs, of `count` observations evenly spread over their order.
FreezeThawProcess::Impl FreezeThawProcess::Impl::some(Index count) const {
  std::vector<Index> chosen;
  for (Index i = 0; i < count; ++i) chosen.push_back(i * inputs.size() / count);
  Impl few;
  few.prior = prior;
  few.dimensions = dimensions;
  few.hyper = hyper;
  few.inputs = inputs.chosen(chosen);
  few.products = few.inputs.products();
  for (const Index i : chosen) few.values.push_back(values[size_t(i)]);
  return few;
}

double FreezeThawProcess::Impl::log_prior(const VectorXd& h,
                                          VectorXd* gradient) const {
  double sum = 0;
  for (Index i = 0; i < h.size(); ++i) {
    const HyperPrior p = hyper_prior(i, d(), prior.get());
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
    gradient[d() + top_at] += (alpha[i] * slope - bend) / map.scale;
    gradient[d() + warp_scale_at] += (alpha[i] * slope - bend) * x - 1;
  }
}

// Negative log posterior of the hyper-parameters, constants left out.
double FreezeThawProcess::Impl::objective(const VectorXd& h,
                                          VectorXd* gradient) const {
  const Index n = inputs.size();
  const ProcessKernel k = kernel(h);
  CovarianceFactor llt;
  if (!llt.try_compute(k.self(inputs, products))) return INFINITY;
  const double s = std::exp(h[d() + scale_at]);
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
  const double log_likelihood =
      -0.5 * residual.dot(alpha) - llt.half_log_determinant() + jacobian;
  const double value = -log_likelihood - log_prior(h, gradient);
  if (gradient == nullptr) return value;

  // d/dh log likelihood = -1/2 tr((K^-1 - alpha alpha^T) dK/dh).
  MatrixXd w = llt.inverse();
  w.noalias() -= alpha * alpha.transpose();
  w *= -0.5;
  k.add_gradient(inputs, products, w, *gradient);
  (*gradient)[d() + scale_at] += s * alpha.dot(inputs.mean);
  add_warp_gradient(h, alpha, *gradient);
  *gradient *= -1;
  return value;
}

void FreezeThawProcess::Impl::factorise() {
  factor.compute(kernel().self(inputs, inputs.products()));
  weigh();
}

// Adds the inputs from `from` on to the factor of those before.
void FreezeThawProcess::Impl::take_in(Index from) {
  const ProcessKernel k = kernel();
  const ProcessInputs old = inputs.part(0, from);
  const ProcessInputs fresh = inputs.part(from, inputs.size() - from);
  factor.append(k.cross(old, fresh), k.self(fresh, fresh.products()));
  weigh();
}

void FreezeThawProcess::Impl::weigh() {
  weights = factor.solve(z - at(scale_at) * inputs.mean);
  if (!weights.allFinite()) weights.setZero();
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
  impl_->hyper.resize(impl_->d() + shared_hypers);
  for (Index i = 0; i < impl_->hyper.size(); ++i) {
    impl_->hyper[i] = hyper_prior(i, impl_->d(), impl_->prior.get()).median;
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

FreezeThawProcess FreezeThawProcess::thinned(size_t count) const {
  DTUNE_CHECK(impl_->values.size() == size());
  FreezeThawProcess few(impl_->prior, impl_->dimensions);
  *few.impl_ = impl_->some(static_cast<Index>(std::min(count, size())));
  few.impl_->warp = impl_->warp;
  few.impl_->see();
  if (few.size() > 0) few.impl_->factorise();
  return few;
}

void FreezeThawProcess::observe(const ProcessObservation& observation) {
  observe({&observation, 1});
}

void FreezeThawProcess::observe(
    std::span<const ProcessObservation> observations) {
  if (observations.empty()) return;
  const Index known = impl_->inputs.size();
  impl_->add(observations);
  impl_->take_in(known);
}

void FreezeThawProcess::fantasize(std::span<const ProcessInput> inputs) {
  if (inputs.empty()) return;
  const std::vector<Gaussian> expected = predict(inputs);
  const Index known = impl_->inputs.size();
  impl_->append(inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    impl_->z[known + static_cast<Index>(i)] = expected[i].mean;
  }
  impl_->take_in(known);
}

void FreezeThawProcess::replace_observations(
    std::span<const ProcessObservation> observations) {
  const Index components = impl_->inputs.phi.rows();
  impl_->inputs = ProcessInputs();
  impl_->inputs.reserve_columns(impl_->d(), components);
  impl_->values.clear();
  impl_->factor.clear();
  impl_->z.resize(0);
  impl_->add(observations);
  if (!observations.empty()) impl_->factorise();
}

size_t FreezeThawProcess::size() const {
  return static_cast<size_t>(impl_->inputs.size());
}

struct FreezeThawProcess::Fit::State {
  Impl few;
  std::optional<Bfgs> search;

  State(Impl observations, int iterations);
};

// From where they are; with more noise where the covariance is then as good as
// singular.
FreezeThawProcess::Fit::State::State(Impl observations, int iterations)
    : few(std::move(observations)) {
  const auto function = [this](const VectorXd& x, VectorXd* gradient) {
    return few.objective(x, gradient);
  };
  VectorXd start = few.hyper;
  for (int i = 0; i < kMoreNoise; ++i, start[few.d() + noise_at] += 1) {
    search.emplace(function, start, BfgsOptions{.iterations = iterations});
    if (search->possible()) return;
  }
  search.reset();
}

FreezeThawProcess::Fit::Fit(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
FreezeThawProcess::Fit::~Fit() = default;
FreezeThawProcess::Fit::Fit(Fit&&) noexcept = default;
FreezeThawProcess::Fit& FreezeThawProcess::Fit::operator=(Fit&&) noexcept =
    default;

bool FreezeThawProcess::Fit::step() {
  return state_->search && state_->search->step();
}

FreezeThawProcess::Fit FreezeThawProcess::begin_fit(int iterations) const {
  DTUNE_CHECK(size() > 0 && impl_->values.size() == size());
  Impl few = impl_->some(std::min(kMostToFit, impl_->inputs.size()));
  return Fit(std::make_unique<Fit::State>(std::move(few), iterations));
}

void FreezeThawProcess::adopt(const Fit& fit) {
  const std::optional<Bfgs>& search = fit.state_->search;
  if (search && search->x().allFinite()) impl_->hyper = search->x();
  impl_->warp = impl_->warp_of(impl_->hyper);
  impl_->see();
  impl_->factorise();
}

void FreezeThawProcess::fit(int iterations) {
  if (size() == 0) return;
  Fit fit = begin_fit(iterations);
  while (fit.step()) {
  }
  adopt(fit);
}

void FreezeThawProcess::rescale(double offset, double factor,
                                std::span<const double> values) {
  DTUNE_CHECK(factor > 0 && values.size() == size());
  Impl& m = *impl_;
  m.hyper[m.d() + top_at] = offset + factor * m.hyper[m.d() + top_at];
  m.hyper[m.d() + warp_scale_at] += std::log(factor);
  m.warp = m.warp_of(m.hyper);
  m.values.assign(values.begin(), values.end());
  m.see();
  m.weigh();
}

// With K the covariance of f and N that of all noise, K (K + N)^-1 r = r -
// N (K + N)^-1 r.
std::vector<double> FreezeThawProcess::observed_means() const {
  const Impl& m = *impl_;
  const VectorXd means = m.z - m.kernel().times_noise(m.inputs, m.weights);
  return {means.data(), means.data() + means.size()};
}

std::vector<FreezeThawProcess::Surprise> FreezeThawProcess::surprises() const {
  const Impl& m = *impl_;
  MatrixXd off = m.z - m.at(scale_at) * m.inputs.mean;
  m.factor.solve_lower(off);
  std::vector<Surprise> result;
  for (Index i = 0; i < off.rows(); ++i) {
    result.push_back({off(i, 0), m.factor.pivot(i)});
  }
  return result;
}

std::vector<Gaussian> FreezeThawProcess::predict(
    std::span<const ProcessInput> queries) const {
  const Impl& m = *impl_;
  ProcessInputs at;
  at.reserve_columns(m.d(), m.inputs.phi.rows());
  at.append(queries, m.prior.get());
  const ProcessKernel k = m.kernel();
  VectorXd means = m.at(scale_at) * at.mean;
  VectorXd variances = k.variance(at);
  if (m.inputs.size() > 0) {
    MatrixXd cross = k.cross(m.inputs, at);  // [n][q]
    means.noalias() += cross.transpose() * m.weights;
    m.factor.solve_lower(cross);
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

double FreezeThawProcess::scale() const { return impl_->at(scale_at); }

double FreezeThawProcess::noise() const {
  return impl_->at(scale_at) * impl_->at(noise_at);
}

double FreezeThawProcess::regularised() const { return impl_->factor.jitter(); }

bool FreezeThawProcess::given_up() const { return impl_->factor.given_up(); }

}  // namespace dtune
