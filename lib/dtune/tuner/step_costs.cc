#include "dtune/tuner/step_costs.h"

#include <cmath>

#include "dtune/surrogate/covariance_factor.h"

namespace dtune {
namespace {

constexpr double kSameCost = 0.1;  // deviation of the logarithm
constexpr double kRidge = 0.3;     // of each coordinate's sum of squares
constexpr size_t kFewestCosts = 4;

struct Cost {
  const Trial* trial;
  double log_seconds;
};

std::vector<Cost> costs_of(const Study& study) {
  std::vector<Cost> costs;
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search || trial.curve.empty()) continue;
    double seconds = 0;
    double steps = 0;
    for (const StepReport& report : trial.curve) {
      seconds += report.seconds + report.checkpoint_seconds;
      steps += step_share(study.recipe, report.step, study.horizon);
    }
    seconds /= steps;
    if (seconds > 0 && std::isfinite(seconds)) {
      costs.push_back({&trial, std::log(seconds)});
    }
  }
  return costs;
}

}  // namespace

StepCosts::StepCosts(const Study& study) : study_(study) {
  if (study.recipe.deterministic) return;
  const std::vector<Cost> costs = costs_of(study);
  const size_t d = study.recipe.space.dimensions();
  if (costs.size() < kFewestCosts || d == 0) return;
  const auto n = static_cast<Eigen::Index>(costs.size());
  Eigen::MatrixXd x(n, static_cast<Eigen::Index>(d));
  Eigen::VectorXd y(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const Cost& cost = costs[static_cast<size_t>(i)];
    x.row(i) = Eigen::Map<const Eigen::RowVectorXd>(
        cost.trial->unit.data(), static_cast<Eigen::Index>(d));
    y[i] = cost.log_seconds;
  }
  y.array() -= y.mean();
  if (std::sqrt(y.squaredNorm() / double(n)) < kSameCost) return;
  const Eigen::RowVectorXd centre = x.colwise().mean();
  x.rowwise() -= centre;
  Eigen::MatrixXd gram = x.transpose().lazyProduct(x);
  gram.diagonal().array() += kRidge;
  CovarianceFactor factor;
  factor.compute(gram);
  const Eigen::VectorXd slope = factor.solve(x.transpose().lazyProduct(y));
  slope_.assign(slope.data(), slope.data() + slope.size());
  centre_.assign(centre.data(), centre.data() + centre.size());
}

double StepCosts::log_relative(std::span<const double> unit) const {
  double sum = 0;
  for (size_t i = 0; i < slope_.size(); ++i) {
    sum += slope_[i] * (unit[i] - centre_[i]);
  }
  return sum;
}

double StepCosts::log_share(int from, int to) const {
  if (!trains_levels(study_.recipe)) return 0;
  return std::log(share_until(study_.recipe, to, study_.horizon) -
                  share_until(study_.recipe, from, study_.horizon));
}

}  // namespace dtune
