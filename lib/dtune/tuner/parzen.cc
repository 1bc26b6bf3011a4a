#include "dtune/tuner/parzen.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "dtune/base/error.h"
#include "dtune/space/axis.h"

namespace dtune {

ParzenEstimator::ParzenEstimator(const ModelSpace& space, const Prior& prior,
                                 std::vector<Place> places,
                                 std::vector<double> weights)
    : space_(space),
      prior_(prior),
      places_(std::move(places)),
      weights_(std::move(weights)) {
  DTUNE_CHECK(weights_.size() == places_.size());
  weights_.push_back(1);
  const double sum = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  for (double& weight : weights_) weight /= sum;
  const double n = double(places_.size());
  const double d = double(space.dimensions());
  const double plain = 0.2 * std::pow(std::max(1.0, n), -1 / (d + 4));
  width_ = std::clamp(plain, 1 / std::min(100.0, n + 2), 1.0);
  other_ = 1 / (n + 1);
}

bool ParzenEstimator::active(size_t axis, const Place& place) const {
  return place.point.contains(space_.space().parameters()[axis].name);
}

double ParzenEstimator::log_kernel(size_t axis, const Place& centre,
                                   const Place& at) const {
  if (!active(axis, centre)) return 0;
  const Parameter& parameter = space_.space().parameters()[axis];
  const double mode = centre.unit[axis];
  const double u = at.unit[axis];
  const auto count = value_count(parameter);
  if (space_.categories()[axis]) {
    const double values = double(*count);
    const double weight = other_ + (u == mode ? 1 : 0);
    return std::log(weight * values / (1 + values * other_));
  }
  const double mass =
      normal_cdf((1 - mode) / width_) - normal_cdf(-mode / width_);
  if (count) {
    const Cell cell = cell_around(parameter, u);
    const double inside = normal_cdf((cell.high - mode) / width_) -
                          normal_cdf((cell.low - mode) / width_);
    const double share = inside / (mass * (cell.high - cell.low));
    return std::log(std::max(share, 1e-300));
  }
  const double z = (u - mode) / width_;
  return -0.5 * z * z -
         std::log(width_ * mass * std::sqrt(2 * std::numbers::pi));
}

double ParzenEstimator::log_density(const Place& at) const {
  std::vector<double> terms;
  for (size_t i = 0; i < places_.size(); ++i) {
    if (weights_[i] <= 0) continue;
    double sum = std::log(weights_[i]);
    for (size_t k = 0; k < space_.dimensions(); ++k) {
      if (active(k, at)) sum += log_kernel(k, places_[i], at);
    }
    terms.push_back(sum);
  }
  terms.push_back(std::log(weights_.back()) + prior_.log_density(at.unit));
  const double largest = *std::max_element(terms.begin(), terms.end());
  double sum = 0;
  for (const double term : terms) sum += std::exp(term - largest);
  return largest + std::log(sum);
}

double ParzenEstimator::sample_axis(size_t axis, const Place& centre,
                                    Rng& rng) const {
  const double u = rng.uniform();
  if (!active(axis, centre)) return u;
  const double mode = centre.unit[axis];
  if (space_.categories()[axis]) {
    const double values =
        double(*value_count(space_.space().parameters()[axis]));
    const double own = 1 / (1 + values * other_);  // beyond the even share
    return rng.uniform() < own ? mode : u;
  }
  const double low = normal_cdf(-mode / width_);
  const double high = normal_cdf((1 - mode) / width_);
  const double p = std::clamp(low + u * (high - low), 1e-300, 1 - 1e-16);
  return std::clamp(mode + width_ * normal_quantile(p), 0.0, 1.0);
}

std::vector<double> ParzenEstimator::sample(Rng& rng) const {
  std::vector<double> unit(space_.dimensions());
  double pick = rng.uniform();
  size_t kernel = 0;
  while (kernel < places_.size() && pick >= weights_[kernel]) {
    pick -= weights_[kernel++];
  }
  if (kernel < places_.size()) {
    for (size_t k = 0; k < unit.size(); ++k) {
      unit[k] = sample_axis(k, places_[kernel], rng);
    }
    return unit;
  }
  for (double& u : unit) u = rng.uniform();
  prior_.warp(unit);
  return unit;
}

}  // namespace dtune
