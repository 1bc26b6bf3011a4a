#include "dtune/tuner/acquisition.h"

#include <cmath>
#include <optional>

#include "dtune/base/random.h"

namespace dtune {
namespace {

Expectation bound_at(const TradeOff& other, double value) {
  Expectation bound;
  bound.metric = other.metric;
  bound.comparison = other.goal == Goal::maximize ? Comparison::greater_equal
                                                  : Comparison::less_equal;
  bound.bound = value;
  return bound;
}

// The best value of the metric, and that of the trial with the best objective.
struct Spread {
  double best = 0;
  double of_leader = 0;
};

std::optional<Spread> spread_of(const Study& study, const TradeOff& other) {
  const ObjectiveSpec& objective = study.recipe.objective;
  std::optional<Spread> spread;
  double leading = 0;
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search) continue;
    const StepReport* report = best_report(objective, trial);
    if (report == nullptr) continue;
    const auto value = finite_metric(*report, other.metric);
    if (!value) continue;
    const double objective_here = *objective_value(objective, *report);
    if (!spread) {
      spread = {*value, *value};
      leading = objective_here;
    }
    const bool better = other.goal == Goal::maximize ? *value > spread->best
                                                     : *value < spread->best;
    if (better) spread->best = *value;
    if (objective_here > leading) {
      leading = objective_here;
      spread->of_leader = *value;
    }
  }
  return spread;
}

}  // namespace

int draw_horizon(uint64_t seed, int64_t decision, int horizon) {
  Rng rng(mix_seed({seed, hash_text("ambition"), uint64_t(decision)}));
  return 1 + static_cast<int>(rng.below(uint64_t(horizon)));
}

std::vector<Expectation> draw_bounds(const Study& study, int64_t decision) {
  const auto& others = study.recipe.objective.trade_offs;
  if (others.empty()) return {};
  Rng rng(
      mix_seed({study.recipe.seed, hash_text("bounds"), uint64_t(decision)}));
  if (rng.below(2) == 0) return {};
  const TradeOff& other = others[rng.below(others.size())];
  const auto spread = spread_of(study, other);
  if (!spread || spread->best == spread->of_leader) return {};
  const double share = rng.uniform();
  const double a = spread->best;
  const double b = spread->of_leader;
  // Metrics such as times and sizes differ by factors.
  const double value =
      a > 0 && b > 0 ? a * std::pow(b / a, share) : a + share * (b - a);
  return {bound_at(other, value)};
}

std::vector<Expectation> bounds_of(const ObjectiveSpec& objective,
                                   const Trial& trial) {
  std::vector<Expectation> bounds;
  if (trial.curve.empty()) return bounds;
  for (const TradeOff& other : objective.trade_offs) {
    const auto value = finite_metric(trial.curve.back(), other.metric);
    if (value) bounds.push_back(bound_at(other, *value));
  }
  return bounds;
}

}  // namespace dtune
