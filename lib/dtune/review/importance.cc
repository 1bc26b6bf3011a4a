#include "dtune/review/importance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "dtune/base/order_statistic.h"
#include "dtune/review/marginals.h"
#include "dtune/space/axis.h"

namespace dtune {
namespace {

constexpr size_t kFewestTrials = 8;
constexpr size_t kMostSamples = 4000;
constexpr double kWorstShare = 0.1;
constexpr size_t kGrid = kEffectPlaces;
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
  values.reserve(samples.size());
  for (const ForestSample& sample : samples) values.push_back(sample.value);
  const double count = static_cast<double>(values.size());
  const double worst = order_statistic(
      std::move(values), static_cast<size_t>(kWorstShare * count));
  for (ForestSample& sample : samples) {
    sample.value = std::max(sample.value, worst);
  }
  return worst;
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

// The best third of the trials, by their best value, without broken ones.
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
  good.reserve(order.size());
  for (const auto& [value, trial] : order) good.push_back(trial);
  return good;
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

// Mean and standard deviation of what the trees say.
Spread spread_of(double sum, double squares, size_t count) {
  const double mean = sum / double(count);
  return {mean,
          std::sqrt(std::max(0.0, squares / double(count) - mean * mean))};
}

std::vector<Spread> spread_of(const Effects& effects) {
  std::vector<Spread> spread;
  for (size_t i = 0; i < kGrid; ++i) {
    double sum = 0, squares = 0;
    for (const auto& effect : effects) {
      sum += effect[i];
      squares += effect[i] * effect[i];
    }
    spread.push_back(spread_of(sum, squares, effects.size()));
  }
  return spread;
}

// What the trees say of one parameter.
struct AxisSums {
  double variance = 0;  // over the trees
  double shares = 0;    // of each tree's own variance
  double share_squares = 0;
  Effects effects;
};

void add_tree(const ForestTree& slice, double variance, size_t axis,
              AxisSums& sums) {
  const Effect effect = main_effect(slice, axis);
  const double own = effect.variance();
  const double share = variance > 0 ? std::min(1.0, own / variance) : 0;
  sums.variance += own;
  sums.shares += share;
  sums.share_squares += share * share;
  auto& places = sums.effects.emplace_back();
  for (size_t i = 0; i < kGrid; ++i) places[i] = effect.at(grid_place(i));
}

ParameterImportance importance_of(const Parameter& parameter,
                                  const AxisSums& sums, double total,
                                  const std::vector<const Trial*>& good) {
  const Effects near =
      is_word(parameter) ? sums.effects : smoothed(sums.effects);
  return {.name = parameter.name,
          .share = std::clamp(sums.variance / total, 0.0, 1.0),
          .deviation =
              spread_of(sums.shares, sums.share_squares, sums.effects.size())
                  .deviation,
          .best = best_place(parameter, near, good),
          .effect = spread_of(sums.effects)};
}

// Of the parameters that matter most: the mean over the trees.
std::vector<PairEffect> pair_effects(
    const std::vector<ForestTree>& slices, const SearchSpace& space,
    const std::vector<ParameterImportance>& parameters) {
  std::vector<PairEffect> pairs;
  const size_t most = std::min(kPairedParameters, parameters.size());
  for (size_t a = 0; a < most; ++a) {
    for (size_t b = a + 1; b < most; ++b) {
      PairEffect pair{parameters[a].name, parameters[b].name, {}};
      pair.values.assign(kPairPlaces * kPairPlaces, 0);
      for (const ForestTree& slice : slices) {
        const std::vector<double> cells =
            pair_effect(slice, *space.find(pair.first),
                        *space.find(pair.second), kPairPlaces);
        for (size_t i = 0; i < cells.size(); ++i) {
          pair.values[i] += cells[i] / double(slices.size());
        }
      }
      pairs.push_back(std::move(pair));
    }
  }
  return pairs;
}

}  // namespace

std::optional<Importance> parameter_importance(const Study& study) {
  Importance importance;
  std::vector<ForestSample> samples = samples_of(study, importance.trials);
  if (importance.trials < kFewestTrials) return std::nullopt;
  importance.failures = add_failures(study, raise_worst(samples), samples);
  const auto& parameters = study.recipe.space.parameters();
  double total = 0;
  std::vector<AxisSums> sums(parameters.size());
  std::vector<ForestTree> slices;
  for (const ForestTree& tree :
       grow_forest(samples, {}, hash_text("importance"))) {
    slices.push_back(end_of_last(tree));
    const double variance = total_variance(slices.back());
    total += variance;
    for (size_t axis = 0; axis < parameters.size(); ++axis) {
      add_tree(slices.back(), variance, axis, sums[axis]);
    }
  }
  // Results may be so far apart that their squares are infinite.
  const bool finite = std::isfinite(total) &&
                      std::ranges::all_of(sums, [](const AxisSums& own) {
                        return std::isfinite(own.variance);
                      });
  if (!(total > 0) || !finite) return std::nullopt;
  const std::vector<const Trial*> good = good_trials(study);
  importance.together = 1;
  for (size_t axis = 0; axis < parameters.size(); ++axis) {
    importance.parameters.push_back(
        importance_of(parameters[axis], sums[axis], total, good));
    importance.together -= importance.parameters.back().share;
  }
  importance.together = std::max(0.0, importance.together);
  std::stable_sort(
      importance.parameters.begin(), importance.parameters.end(),
      [](const auto& a, const auto& b) { return a.share > b.share; });
  importance.pairs =
      pair_effects(slices, study.recipe.space, importance.parameters);
  return importance;
}

}  // namespace dtune
