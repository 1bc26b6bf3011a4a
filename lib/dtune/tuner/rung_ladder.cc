#include "dtune/tuner/rung_ladder.h"

#include <algorithm>
#include <cmath>

#include "dtune/tuner/options.h"

namespace dtune {
namespace {

// Levels from one rung to the next.
int levels_apart(int eta) {
  return std::max(1, int(std::lround(std::log2(eta))));
}

std::vector<int> rungs_of(const Recipe& recipe, int horizon, int eta,
                          int min_steps) {
  return trains_levels(recipe) ? level_rungs(horizon, eta, min_steps)
                               : asha_rungs(horizon, eta, min_steps);
}

// The last of at most three rungs from the horizon down, each with 1/eta of the
// training of the one above.
int lowest_rung(const Recipe& recipe, int horizon, int eta) {
  const auto rung = [&](int down) {
    if (trains_levels(recipe)) return horizon - down * levels_apart(eta);
    int64_t divisor = 1;
    for (int i = 0; i < down; ++i) divisor *= eta;
    return divisor > horizon ? 0 : int((horizon + divisor - 1) / divisor);
  };
  for (const int down : {3, 2, 1}) {
    if (rung(down) >= 1) return rung(down);
  }
  return 1;
}

// A bracket for each rung; one that costs less for each trial gets more trials.
std::vector<double> equal_budgets(const Recipe& recipe,
                                  const std::vector<int>& rungs, int eta) {
  std::vector<double> costs;
  costs.reserve(rungs.size());
  for (const int step : rungs) {
    costs.push_back(share_until(recipe, step, rungs.back()));
  }
  std::vector<double> shares;
  shares.reserve(rungs.size());
  for (size_t first = 0; first < rungs.size(); ++first) {
    shares.push_back(1 / average_cost(costs, first, eta));
  }
  return shares;
}

}  // namespace

Rungs asha_ladder(const Recipe& recipe, int horizon) {
  const OptionReader options("scheduler", recipe.scheduler.options);
  const std::string mode =
      options.word("mode", {"standard", "aggressive", "conservative"});
  const int share = mode == "aggressive" ? 24 : mode == "standard" ? 12 : 6;
  const int usual = mode == "aggressive" ? 4 : mode == "standard" ? 3 : 2;
  const int first = trains_levels(recipe)
                        ? std::max(1, horizon - int(std::log2(share)))
                        : (horizon + share - 1) / share;
  const int eta = options.integer("eta", 2, 100).value_or(usual);
  const int min_steps =
      options.integer("min_steps", 1, horizon).value_or(first);
  return {rungs_of(recipe, horizon, eta, min_steps), eta};
}

Rungs hyperband_ladder(const Recipe& recipe, int horizon) {
  const OptionReader options("scheduler", recipe.scheduler.options);
  const int eta = options.integer("eta", 2, 100).value_or(3);
  const int min_steps = options.integer("min_steps", 1, horizon)
                            .value_or(lowest_rung(recipe, horizon, eta));
  std::vector<int> steps = rungs_of(recipe, horizon, eta, min_steps);
  std::vector<double> shares = equal_budgets(recipe, steps, eta);
  return {std::move(steps), eta, std::move(shares)};
}

std::vector<int> asha_rungs(int horizon, int eta, int min_steps) {
  std::vector<int> steps;
  for (int64_t step = min_steps; step * 5 < int64_t{horizon} * 4; step *= eta) {
    steps.push_back(static_cast<int>(step));
  }
  steps.push_back(horizon);
  return steps;
}

std::vector<int> level_rungs(int levels, int eta, int min_steps) {
  std::vector<int> steps;
  for (int level = min_steps; level < levels; level += levels_apart(eta)) {
    steps.push_back(level);
  }
  steps.push_back(levels);
  return steps;
}

double average_cost(const std::vector<double>& costs, size_t first, int eta) {
  double sum = 0;
  double share = 1;
  double before = 0;
  for (size_t rung = first; rung < costs.size(); ++rung) {
    sum += share * (costs[rung] - before);
    before = costs[rung];
    share /= eta;
  }
  return sum;
}

}  // namespace dtune
