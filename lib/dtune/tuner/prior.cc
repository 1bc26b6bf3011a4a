#include "dtune/tuner/prior.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "dtune/base/random.h"
#include "dtune/space/axis.h"

namespace dtune {
namespace {

double width_of(Confidence confidence) {
  constexpr double kWidths[] = {0.5, 0.25, 0.125};
  return kWidths[size_t(confidence)];
}

double weight_of(Confidence confidence) {
  constexpr double kWeights[] = {2, 4, 6};
  return kWeights[size_t(confidence)];
}

}  // namespace

Prior::Prior(const SearchSpace& space) {
  for (const Parameter& parameter : space.parameters()) {
    marginals_.push_back(make_marginal(parameter));
    if (marginals_.back().given) ++given_;
  }
}

Prior::Marginal Prior::make_marginal(const Parameter& parameter) {
  Marginal marginal;
  if (!parameter.prior) return marginal;
  marginal.given = true;
  marginal.mode = encode_value(parameter, *parameter.prior);
  if (parameter.kind == ParameterKind::real ||
      parameter.kind == ParameterKind::integer) {
    marginal.width = width_of(parameter.confidence);
    return marginal;
  }
  const Cell cell = cell_around(parameter, marginal.mode);
  marginal.cell_low = cell.low;
  marginal.cell_high = cell.high;
  const double others = static_cast<double>(*value_count(parameter)) - 1;
  const double weight = weight_of(parameter.confidence);
  marginal.weight = weight / (weight + others);
  return marginal;
}

double Prior::cumulative(const Marginal& b, double u) {
  double g = 0;
  if (b.width > 0) {
    const double below = normal_cdf(-b.mode / b.width);
    const double above = normal_cdf((1 - b.mode) / b.width);
    g = (normal_cdf((u - b.mode) / b.width) - below) / (above - below);
  } else {
    const double size = b.cell_high - b.cell_low;
    const double inside = std::clamp(u - b.cell_low, 0.0, size);
    const double outside = size < 1 ? (u - inside) / (1 - size) : 0;
    g = b.weight * inside / size + (1 - b.weight) * outside;
  }
  return kDoubt * u + (1 - kDoubt) * g;
}

double Prior::density(const Marginal& b, double u) {
  double g = 0;
  if (b.width > 0) {
    const double mass =
        normal_cdf((1 - b.mode) / b.width) - normal_cdf(-b.mode / b.width);
    const double z = (u - b.mode) / b.width;
    g = std::exp(-z * z / 2) /
        (std::sqrt(2 * std::numbers::pi) * b.width * mass);
  } else {
    const double size = b.cell_high - b.cell_low;
    const bool inside = u >= b.cell_low && u < b.cell_high;
    g = inside || size >= 1 ? b.weight / size : (1 - b.weight) / (1 - size);
  }
  return kDoubt + (1 - kDoubt) * g;
}

// By bisection: the mixture has no closed quantile, and 53 halvings of [0, 1]
// are exact to a double.
double Prior::quantile(const Marginal& b, double p) {
  double low = 0;
  double high = 1;
  for (int i = 0; i < 53; ++i) {
    const double middle = (low + high) / 2;
    (cumulative(b, middle) < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

void Prior::warp(std::span<double> unit) const {
  for (size_t i = 0; i < marginals_.size(); ++i) {
    if (marginals_[i].given) unit[i] = quantile(marginals_[i], unit[i]);
  }
}

void Prior::move_to_mode(std::span<double> unit) const {
  for (size_t i = 0; i < marginals_.size(); ++i) {
    if (marginals_[i].given) unit[i] = marginals_[i].mode;
  }
}

double Prior::log_density(std::span<const double> unit) const {
  double sum = 0;
  for (size_t i = 0; i < marginals_.size(); ++i) {
    if (marginals_[i].given) sum += std::log(density(marginals_[i], unit[i]));
  }
  return sum;
}

}  // namespace dtune
