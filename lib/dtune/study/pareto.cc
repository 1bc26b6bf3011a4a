#include "dtune/study/pareto.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace dtune {
namespace {

std::optional<TradedOff> traded_off(const Study& study, const Trial& trial) {
  const ObjectiveSpec& objective = study.recipe.objective;
  if (trial.kind != TrialKind::search || !has_results(study, trial)) return {};
  const StepReport* report = best_report(objective, trial);
  if (report == nullptr) return {};
  TradedOff result = {&trial, report, {*objective_value(objective, *report)}};
  for (const TradeOff& other : objective.trade_offs) {
    const auto value = finite_metric(*report, other.metric);
    if (!value) return {};
    result.values.push_back(other.goal == Goal::maximize ? *value : -*value);
  }
  return result;
}

bool dominates(const TradedOff& a, const TradedOff& b) {
  bool better = false;
  for (size_t i = 0; i < a.values.size(); ++i) {
    if (a.values[i] < b.values[i]) return false;
    better = better || a.values[i] > b.values[i];
  }
  return better;
}

}  // namespace

std::vector<TradedOff> pareto_front(const Study& study) {
  std::vector<TradedOff> all;
  for (const Trial& trial : study.trials) {
    if (auto one = traded_off(study, trial)) all.push_back(*std::move(one));
  }
  std::vector<TradedOff> front;
  for (const TradedOff& one : all) {
    const bool beaten = std::any_of(
        all.begin(), all.end(),
        [&](const TradedOff& other) { return dominates(other, one); });
    if (!beaten) front.push_back(one);
  }
  std::stable_sort(front.begin(), front.end(),
                   [](const TradedOff& a, const TradedOff& b) {
                     return a.values[0] > b.values[0];
                   });
  return front;
}

}  // namespace dtune
