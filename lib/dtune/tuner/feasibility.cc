#include "dtune/tuner/feasibility.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "dtune/surrogate/correction.h"

namespace dtune {
namespace {

constexpr size_t kFewestOutcomes = 3;
constexpr size_t kMost = 200;
constexpr double kLargest = 1e100;

using Sample = std::pair<const Trial*, double>;

// Each trial's last report of the metric.
std::vector<Sample> samples_of(const Study& study, const std::string& metric) {
  std::vector<Sample> samples;
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search || trial.curve.empty()) continue;
    const auto value = finite_metric(trial.curve.back(), metric);
    if (value && std::abs(*value) < kLargest) {
      samples.emplace_back(&trial, *value);
    }
  }
  return samples;
}

std::vector<Sample> thinned(const std::vector<Sample>& all) {
  if (all.size() <= kMost) return all;
  std::vector<Sample> some;
  for (size_t i = 0; i < kMost; ++i) {
    some.push_back(all[i * all.size() / kMost]);
  }
  return some;
}

}  // namespace

Feasibility::Feasibility(const Recipe& recipe)
    : space_(recipe.space),
      model_space_(space_),
      require_(recipe.objective.require),
      active_(require_) {
  const auto add = [this](const std::string& metric) {
    const bool known =
        std::any_of(metrics_.begin(), metrics_.end(),
                    [&](const Metric& m) { return m.name == metric; });
    if (!known) metrics_.push_back({metric, nullptr, 0, 0});
  };
  for (const Expectation& one : require_) add(one.metric);
  for (const TradeOff& other : recipe.objective.trade_offs) add(other.metric);
}

void Feasibility::bound(const std::vector<Expectation>& bounds) {
  active_ = require_;
  active_.insert(active_.end(), bounds.begin(), bounds.end());
}

void Feasibility::update(const Study& study) {
  if (space_.dimensions() == 0) return;
  for (Metric& metric : metrics_) {
    const std::vector<Sample> all = samples_of(study, metric.name);
    size_t reports = 0;
    for (const Sample& s : all) reports += s.first->curve.size();
    if (all.size() < kFewestOutcomes || reports == metric.reports) continue;
    metric.reports = reports;
    const std::vector<Sample> samples = thinned(all);
    const auto n = Eigen::Index(samples.size());
    Eigen::MatrixXd x(Eigen::Index(space_.dimensions()), n);
    Eigen::VectorXd y(n);
    for (Eigen::Index i = 0; i < n; ++i) {
      const auto& [trial, value] = samples[size_t(i)];
      const Place place = model_space_.place(trial->point);
      for (Eigen::Index k = 0; k < x.rows(); ++k) {
        x(k, i) = place.coordinates[size_t(k)];
      }
      y[i] = value;
    }
    metric.process =
        std::make_unique<GaussianProcess>(model_space_.categories());
    metric.process->fit(x, y);
    metric.noise = metric.process->noise();
  }
}

double Feasibility::log_chance(const Point& point) const {
  return empty() ? 0 : log_chance_at(model_space_.place(point).coordinates);
}

double Feasibility::log_chance_at(std::span<const double> coordinates) const {
  double sum = 0;
  const Eigen::VectorXd x = Eigen::Map<const Eigen::VectorXd>(
      coordinates.data(), Eigen::Index(coordinates.size()));
  for (const Metric& metric : metrics_) {
    if (metric.process == nullptr) continue;
    const GpPrediction p = metric.process->predict(x);
    const double deviation =
        std::max(std::hypot(p.deviation, metric.noise), 1e-12);
    for (const Expectation& one : active_) {
      if (one.metric != metric.name) continue;
      const bool upper = one.comparison == Comparison::less ||
                         one.comparison == Comparison::less_equal;
      const double z = (one.bound - p.mean) / deviation;
      sum += log_normal_tail(upper ? -z : z);
    }
  }
  return sum;
}

}  // namespace dtune
