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
// What supports a best place: good trials near it.
constexpr double kGoodShare = 1.0 / 3;
constexpr double kNear = 0.05;
constexpr int kFewestNear = 2;

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

// The value that the worst are raised to.
double raise_worst(std::vector<ForestSample>& samples) {
  std::vector<double> values;
  for (const ForestSample& sample : samples) values.push_back(sample.value);
  const auto place =
      values.begin() + static_cast<std::ptrdiff_t>(
                           kWorstShare * static_cast<double>(values.size()));
  std::nth_element(values.begin(), place, values.end());
  for (ForestSample& sample : samples) {
    sample.value = std::max(sample.value, *place);
  }
  return *place;
}

bool broke(const Trial& trial) {
  return trial.kind == TrialKind::search &&
         (trial.state == TrialState::failed ||
          trial.state == TrialState::invalid ||
          trial.state == TrialState::timed_out);
}

// At the horizon, where they would have ended.
size_t add_failures(const Study& study, double worst,
                    std::vector<ForestSample>& samples) {
  size_t failures = 0;
  for (const Trial& trial : study.trials) {
    if (!broke(trial)) continue;
    ++failures;
    ForestSample sample;
    sample.at = study.recipe.space.encode(trial.point);
    sample.at.push_back(1);
    sample.value = worst;
    sample.group = static_cast<size_t>(trial.id);
    samples.push_back(std::move(sample));
  }
  return failures;
}

// The best third of the trials, by their best value; broken ones are none.
std::vector<const Trial*> good_trials(const Study& study) {
  std::vector<std::pair<double, const Trial*>> order;
  size_t all = 0;
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search) continue;
    const auto value = best_value(study.recipe.objective, trial);
    if (value || broke(trial)) ++all;
    if (value && !broke(trial)) order.emplace_back(-*value, &trial);
  }
  std::stable_sort(
      order.begin(), order.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  order.resize(std::min(
      order.size(), static_cast<size_t>(std::ceil(kGoodShare * double(all)))));
  std::vector<const Trial*> good;
  for (const auto& [value, trial] : order) good.push_back(trial);
  return good;
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

double grid_place(size_t i) { return double(i) / (kGrid - 1); }

// A parameter's mean effect by tree, at the places of the grid.
using Effects = std::vector<std::array<double, kGrid>>;

bool is_word(const Parameter& parameter) {
  return parameter.kind == ParameterKind::categorical ||
         parameter.kind == ParameterKind::boolean;
}

// Of the places near each: beside a cliff nothing is good.
Effects smoothed(const Effects& effects) {
  constexpr auto kReach = static_cast<size_t>(kNear * (kGrid - 1));
  Effects result = effects;
  for (size_t tree = 0; tree < effects.size(); ++tree) {
    for (size_t i = 0; i < kGrid; ++i) {
      const size_t first = i < kReach ? 0 : i - kReach;
      const size_t last = std::min(i + kReach, kGrid - 1);
      double sum = 0;
      for (size_t k = first; k <= last; ++k) sum += effects[tree][k];
      result[tree][i] = sum / double(last - first + 1);
    }
  }
  return result;
}

bool is_supported(const Parameter& parameter, double place,
                  const std::vector<const Trial*>& good) {
  const bool word = is_word(parameter);
  const Value value = decode_value(parameter, place);
  const auto near = [&](const Trial* trial) {
    const auto own = trial->point.find(parameter.name);
    if (own == trial->point.end()) return false;
    return word ? own->second == value
                : std::abs(encode_value(parameter, own->second) - place) <=
                      kNear;
  };
  return std::count_if(good.begin(), good.end(), near) >= kFewestNear;
}

// What a place is better than the mean by is more than chance has it differ
// between the trees.
bool stands_out(const Effects& effects, size_t place) {
  double sum = 0, squares = 0;
  for (const auto& effect : effects) {
    double mean = 0;
    for (const double value : effect) mean += value / kGrid;
    const double ahead = effect[place] - mean;
    sum += ahead;
    squares += ahead * ahead;
  }
  const auto trees = static_cast<double>(effects.size());
  const double mean = sum / trees;
  return mean > 0 && mean * mean > squares / trees - mean * mean;
}

std::optional<Value> best_place(const Parameter& parameter,
                                const Effects& effects,
                                const std::vector<const Trial*>& good) {
  std::array<double, kGrid> total{};
  for (const auto& effect : effects) {
    for (size_t i = 0; i < kGrid; ++i) total[i] += effect[i];
  }
  std::optional<size_t> best;
  for (size_t i = 0; i < kGrid; ++i) {
    const bool better = !best || total[i] > total[*best];
    if (better && is_supported(parameter, grid_place(i), good)) best = i;
  }
  if (!best || !stands_out(effects, *best)) return std::nullopt;
  return decode_value(parameter, grid_place(*best));
}

}  // namespace

std::optional<Importance> parameter_importance(const Study& study) {
  Importance importance;
  std::vector<ForestSample> samples = samples_of(study, importance.trials);
  if (importance.trials < kFewestTrials) return std::nullopt;
  importance.failures = add_failures(study, raise_worst(samples), samples);
  const std::vector<ForestTree> forest =
      grow_forest(samples, {}, hash_text("importance"));

  const auto& parameters = study.recipe.space.parameters();
  double total = 0;
  std::vector<double> alone(parameters.size(), 0);
  std::vector<Effects> effects(parameters.size());
  for (const ForestTree& tree : forest) {
    const ForestTree slice = at_the_horizon(tree);
    total += total_variance(slice);
    for (size_t axis = 0; axis < parameters.size(); ++axis) {
      const Effect effect = main_effect(slice, axis);
      alone[axis] += effect.variance();
      auto& places = effects[axis].emplace_back();
      for (size_t i = 0; i < kGrid; ++i) places[i] = effect.at(grid_place(i));
    }
  }
  if (!(total > 0)) return std::nullopt;
  const std::vector<const Trial*> good = good_trials(study);
  importance.together = 1;
  for (size_t axis = 0; axis < parameters.size(); ++axis) {
    const double share = std::clamp(alone[axis] / total, 0.0, 1.0);
    importance.together -= share;
    importance.parameters.push_back(
        {parameters[axis].name, share,
         best_place(parameters[axis],
                    is_word(parameters[axis]) ? effects[axis]
                                              : smoothed(effects[axis]),
                    good)});
  }
  importance.together = std::max(0.0, importance.together);
  std::stable_sort(
      importance.parameters.begin(), importance.parameters.end(),
      [](const auto& a, const auto& b) { return a.share > b.share; });
  return importance;
}

}  // namespace dtune
