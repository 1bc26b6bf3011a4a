// The points that LearntPrior names to open a study with.
#include <algorithm>
#include <limits>

#include "dtune/surrogate/learnt_prior.h"
#include "dtune/surrogate/warp.h"

namespace dtune {
namespace {

// [point][sample], so that a point's samples lie in a row.
struct Regrets {
  size_t points = 0;
  size_t samples = 0;
  std::vector<float> values;

  std::span<const float> of(size_t point) const {
    return {&values[point * samples], samples};
  }
};

double mean_of_least(std::span<const float> regret,
                     std::span<const float> least,
                     std::span<const float> weights) {
  float sum = 0;
  for (size_t i = 0; i < regret.size(); ++i) {
    sum += weights[i] * std::min(regret[i], least[i]);
  }
  return double{sum};
}

std::vector<size_t> greedy_portfolio(const Regrets& regrets,
                                     std::span<const float> weights,
                                     size_t count) {
  std::vector<size_t> chosen;
  std::vector<float> least(regrets.samples, 1.0F);
  while (chosen.size() < std::min(count, regrets.points)) {
    size_t best = 0;
    double best_mean = std::numeric_limits<double>::infinity();
    for (size_t point = 0; point < regrets.points; ++point) {
      const double mean = mean_of_least(regrets.of(point), least, weights);
      if (mean < best_mean) {
        best = point;
        best_mean = mean;
      }
    }
    if (std::find(chosen.begin(), chosen.end(), best) != chosen.end()) break;
    chosen.push_back(best);
    const std::span<const float> own = regrets.of(best);
    for (size_t i = 0; i < least.size(); ++i) {
      least[i] = std::min(least[i], own[i]);
    }
  }
  return chosen;
}

}  // namespace

std::vector<CubePoint> LearntPrior::opening(
    const CubeContext& context, std::span<const std::string> leave_out,
    size_t count) const {
  const size_t frames = axes_.time.size();
  Regrets regrets{axes_.voxels(), tasks_.size(), {}};
  regrets.values.reserve(regrets.points * regrets.samples);
  std::vector<float> loadings(components_);
  for (size_t point = 0; point < regrets.points; ++point) {
    const size_t end = point * frames + frames - 1;
    for (size_t k = 0; k < components_; ++k) {
      loadings[k] = basis_[k * axes_.size() + end];
    }
    for (size_t i = 0; i < regrets.samples; ++i) {
      float z = mean_[end];
      for (size_t k = 0; k < components_; ++k) {
        z += coefficients_[i * components_ + k] * loadings[k];
      }
      const double regret = -warp_unit_inverse(double{z});
      regrets.values.push_back(
          static_cast<float>(std::clamp(regret, 0.0, 1.0)));
    }
  }
  std::vector<CubePoint> points;
  for (const size_t at :
       greedy_portfolio(regrets, weights(context, leave_out), count)) {
    points.push_back(axes_.point(at));
  }
  return points;
}

}  // namespace dtune
