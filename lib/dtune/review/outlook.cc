#include "dtune/review/outlook.h"

#include <algorithm>
#include <cmath>

#include "dtune/base/random.h"
#include "dtune/report/facts.h"
#include "dtune/review/explain.h"

namespace dtune {
namespace {

constexpr double kBand = 1.6449;  // deviations from the mean to an end of it
constexpr int kLevels = 400;      // at which the distribution is computed

constexpr size_t kLooked = 3;  // trials looked at for one that is shown

// As an objective: the larger the better.
struct Expected {
  double mean = 0;
  double deviation = 0;
  double most = 0;  // the upper end of the band
  int steps = 0;
  double gain = 0;  // expected improvement per step
};

double below(const Expected& expected, double level) {
  if (expected.deviation <= 0) return level >= expected.mean ? 1 : 0;
  const double z = (level - expected.mean) / expected.deviation;
  return normal_cdf(z);
}

// E[max(X - best, 0)] of a normal X.
double improvement(const Expected& expected, double best) {
  const double ahead = expected.mean - best;
  if (expected.deviation <= 0) return std::max(0.0, ahead);
  const double z = ahead / expected.deviation;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * M_PI);
  return ahead * normal_cdf(z) + expected.deviation * density;
}

Expected expected_of(const Study& study, const OpenTrial& open, double best) {
  const Prediction& end = open.predicted.back();
  const ObjectiveSpec& objective = study.recipe.objective;
  Expected expected{
      .mean = metric_of(objective, end.mean),
      .deviation = std::abs(end.high - end.low) / (2 * kBand),
      .most = std::max(metric_of(objective, end.low),
                       metric_of(objective, end.high)),
      .steps = std::max(1, study.horizon - study.trial(open.trial).steps())};
  expected.gain = improvement(expected, best) / expected.steps;
  return expected;
}

// Mean and quantiles of the largest of `best` and the first `count` trials.
OutlookPoint point_of(const ObjectiveSpec& objective,
                      const std::vector<Expected>& trials, size_t count,
                      double best) {
  double top = best;
  OutlookPoint point;
  for (size_t i = 0; i < count; ++i) {
    point.steps += trials[i].steps;
    top = std::max(top, trials[i].most);
  }
  const double width = (top - best) / kLevels;
  double mean = best, low = top, high = top;
  for (int level = kLevels - 1; level >= 0; --level) {
    const double at = best + (level + 0.5) * width;
    double chance = 1;  // that none is above
    for (size_t i = 0; i < count; ++i) chance *= below(trials[i], at);
    mean += (1 - chance) * width;
    if (chance >= 0.1) low = at;
    if (chance >= 0.9) high = at;
  }
  if (width <= 0) low = high = best;
  const double ends[] = {metric_of(objective, low), metric_of(objective, high)};
  point.mean = metric_of(objective, mean);
  point.low = std::min(ends[0], ends[1]);
  point.high = std::max(ends[0], ends[1]);
  return point;
}

bool is_open(const Study& study, const Trial& trial) {
  return trial.kind == TrialKind::search &&
         (trial.state == TrialState::paused ||
          trial.state == TrialState::running) &&
         trial.steps() > 0 && trial.steps() < study.horizon;
}

// The open trials with the best values so far: a forecast takes time.
std::vector<TrialId> promising(const Study& study, size_t most) {
  std::vector<std::pair<double, TrialId>> order;
  for (const Trial& trial : study.trials) {
    const auto value = best_value(study.recipe.objective, trial);
    if (value && is_open(study, trial)) order.emplace_back(-*value, trial.id);
  }
  std::sort(order.begin(), order.end());
  std::vector<TrialId> ids;
  for (const auto& [value, id] : order) {
    if (ids.size() < most) ids.push_back(id);
  }
  return ids;
}

}  // namespace

std::vector<OpenTrial> open_trials(const Study& study, const ReplayTuner& tuner,
                                   size_t most) {
  const ObjectiveSpec& objective = study.recipe.objective;
  std::vector<std::pair<double, TrialId>> order;
  for (const TrialId id : promising(study, kLooked * most)) {
    const auto end = predict_step(study, study.trial(id), study.horizon, tuner);
    if (end) order.emplace_back(-metric_of(objective, end->mean), id);
  }
  std::stable_sort(order.begin(), order.end());
  std::vector<OpenTrial> open;
  for (const auto& [value, id] : order) {
    if (open.size() == most) break;
    open.push_back({id, predict_curve(study, study.trial(id), tuner)});
  }
  return open;
}

std::vector<OutlookPoint> outlook(const Study& study,
                                  const std::vector<OpenTrial>& open) {
  const Trial* leader = incumbent(study);
  if (leader == nullptr || open.empty()) return {};
  const ObjectiveSpec& objective = study.recipe.objective;
  const double best = *best_value(objective, *leader);
  std::vector<Expected> trials;
  for (const OpenTrial& one : open) {
    if (!one.predicted.empty()) {
      trials.push_back(expected_of(study, one, best));
    }
  }
  std::stable_sort(
      trials.begin(), trials.end(),
      [](const auto& a, const auto& b) { return a.gain > b.gain; });
  std::vector<OutlookPoint> points;
  for (size_t count = 0; count <= trials.size(); ++count) {
    points.push_back(point_of(objective, trials, count, best));
  }
  return points;
}

}  // namespace dtune
