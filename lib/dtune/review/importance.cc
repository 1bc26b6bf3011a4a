#include "dtune/review/importance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "dtune/review/forest.h"
#include "dtune/space/axis.h"

namespace dtune {
namespace {

constexpr size_t kFewestTrials = 8;
constexpr size_t kMostSamples = 4000;
constexpr double kWorstShare = 0.1;
constexpr size_t kGrid = 65;  // places at which a mean effect is looked at

// Steps that stand for a curve: its last one and powers of two.
std::vector<int> chosen_steps(const Trial& trial) {
  std::vector<int> steps;
  for (int step = 1; step < trial.steps(); step *= 2) steps.push_back(step);
  steps.push_back(trial.steps());
  return steps;
}

double time_of(int step, int horizon) {
  return horizon <= 1 ? 1.0 : std::min(1.0, std::log(step) / std::log(horizon));
}

int longest_curve(const Study& study) {
  int longest = 1;
  for (const Trial& trial : study.trials) {
    longest = std::max(longest, trial.steps());
  }
  return longest;
}

// The last coordinate is time.
std::vector<ForestSample> samples_of(const Study& study, size_t& trials) {
  const int horizon = std::min(study.horizon, longest_curve(study));
  std::vector<ForestSample> samples;
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search || samples.size() > kMostSamples) {
      continue;
    }
    const size_t before = samples.size();
    for (const int step : chosen_steps(trial)) {
      const auto value = value_at(study.recipe.objective, trial, step);
      if (!value) continue;
      ForestSample sample;
      sample.at = study.recipe.space.encode(trial.point);
      sample.at.push_back(time_of(step, horizon));
      sample.value = *value;
      sample.group = static_cast<size_t>(trial.id);
      samples.push_back(std::move(sample));
    }
    if (samples.size() > before) ++trials;
  }
  return samples;
}

void raise_worst(std::vector<ForestSample>& samples) {
  std::vector<double> values;
  for (const ForestSample& sample : samples) values.push_back(sample.value);
  const auto place =
      values.begin() + static_cast<std::ptrdiff_t>(
                           kWorstShare * static_cast<double>(values.size()));
  std::nth_element(values.begin(), place, values.end());
  for (ForestSample& sample : samples) {
    sample.value = std::max(sample.value, *place);
  }
}

// A function of one coordinate that is constant between breaks.
struct Effect {
  std::vector<double> breaks;  // 0, ..., 1
  std::vector<double> values;  // one less

  double mean() const {
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) sum += width(i) * values[i];
    return sum;
  }
  double variance() const {
    const double middle = mean();
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      sum += width(i) * (values[i] - middle) * (values[i] - middle);
    }
    return sum;
  }
  double at(double u) const {
    const auto after = std::upper_bound(breaks.begin(), breaks.end(), u);
    const auto place = static_cast<size_t>(after - breaks.begin());
    return values[std::clamp<size_t>(place, 1, values.size()) - 1];
  }

 private:
  double width(size_t i) const { return breaks[i + 1] - breaks[i]; }
};

// The boxes of a tree at the horizon; their last coordinate is done with.
ForestTree at_the_horizon(const ForestTree& tree) {
  ForestTree slice;
  for (const ForestBox& box : tree) {
    if (box.high.back() >= 1) slice.push_back(box);
  }
  return slice;
}

double volume(const ForestBox& box) {
  double product = 1;
  for (size_t i = 0; i + 1 < box.low.size(); ++i) {
    product *= box.high[i] - box.low[i];
  }
  return product;
}

double total_variance(const ForestTree& slice) {
  double sum = 0, squares = 0;
  for (const ForestBox& box : slice) {
    sum += volume(box) * box.mean;
    squares += volume(box) * box.mean * box.mean;
  }
  return std::max(0.0, squares - sum * sum);
}

// The mean over all other coordinates, by sweeping over the boxes' edges.
Effect main_effect(const ForestTree& slice, size_t axis) {
  Effect effect;
  std::set<double> edges{0, 1};
  for (const ForestBox& box : slice) {
    edges.insert(box.low[axis]);
    edges.insert(box.high[axis]);
  }
  effect.breaks.assign(edges.begin(), edges.end());
  std::vector<double> change(effect.breaks.size(), 0);
  const auto place = [&](double edge) {
    return static_cast<size_t>(
        std::lower_bound(effect.breaks.begin(), effect.breaks.end(), edge) -
        effect.breaks.begin());
  };
  for (const ForestBox& box : slice) {
    const double width = box.high[axis] - box.low[axis];
    if (width <= 0) continue;
    const double share = box.mean * volume(box) / width;
    change[place(box.low[axis])] += share;
    change[place(box.high[axis])] -= share;
  }
  double sum = 0;
  for (size_t i = 0; i + 1 < effect.breaks.size(); ++i) {
    sum += change[i];
    effect.values.push_back(sum);
  }
  return effect;
}

double best_place(const std::array<double, kGrid>& mean) {
  const auto best = std::max_element(mean.begin(), mean.end());
  return static_cast<double>(best - mean.begin()) / (kGrid - 1);
}

}  // namespace

std::optional<Importance> parameter_importance(const Study& study) {
  Importance importance;
  std::vector<ForestSample> samples = samples_of(study, importance.trials);
  if (importance.trials < kFewestTrials) return std::nullopt;
  raise_worst(samples);
  const std::vector<ForestTree> forest =
      grow_forest(samples, {}, hash_text("importance"));

  const auto& parameters = study.recipe.space.parameters();
  double total = 0;
  std::vector<double> alone(parameters.size(), 0);
  std::vector<std::array<double, kGrid>> mean(parameters.size());
  for (const ForestTree& tree : forest) {
    const ForestTree slice = at_the_horizon(tree);
    total += total_variance(slice);
    for (size_t axis = 0; axis < parameters.size(); ++axis) {
      const Effect effect = main_effect(slice, axis);
      alone[axis] += effect.variance();
      for (size_t i = 0; i < kGrid; ++i) {
        mean[axis][i] += effect.at(double(i) / (kGrid - 1));
      }
    }
  }
  if (!(total > 0)) return std::nullopt;
  importance.together = 1;
  for (size_t axis = 0; axis < parameters.size(); ++axis) {
    const double share = std::clamp(alone[axis] / total, 0.0, 1.0);
    importance.together -= share;
    importance.parameters.push_back(
        {parameters[axis].name, share,
         decode_value(parameters[axis], best_place(mean[axis]))});
  }
  importance.together = std::max(0.0, importance.together);
  std::stable_sort(
      importance.parameters.begin(), importance.parameters.end(),
      [](const auto& a, const auto& b) { return a.share > b.share; });
  return importance;
}

}  // namespace dtune
