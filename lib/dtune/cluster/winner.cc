#include "dtune/cluster/winner.h"

#include <fmt/format.h>

#include "dtune/cluster/stop_rules.h"

namespace dtune {
namespace {

double reported(const Study& study, const Trial& trial) {
  const ObjectiveSpec& objective = study.recipe.objective;
  return best_report(objective, trial)->metrics.at(objective.metric);
}

// "trial 4 has the best expected val_accuracy, 0.971 at step 12 (0.973 was
// reported); trial 7 reported 0.983, which the other reports do not support".
std::string explain_leader(const Study& study, const Scheduler& scheduler,
                           const Leader& leader, const Trial& luckiest) {
  const std::string& metric = study.recipe.objective.metric;
  const Trial& trial = study.trial(leader.trial);
  const auto expected = scheduler.predict(study, trial, leader.step);
  std::string text =
      fmt::format("trial {} has the best expected {}", leader.trial, metric);
  if (expected) {
    text += fmt::format(", {:.6g} at step {}", expected->mean, leader.step);
  }
  return text + fmt::format(
                    " ({:.6g} was its best report); trial {} reported {:.6g}, "
                    "which the other reports do not support",
                    reported(study, trial), luckiest.id,
                    reported(study, luckiest));
}

}  // namespace

Winner winner_of(const Study& study, const Scheduler& scheduler) {
  const Trial* luckiest = incumbent(study);
  if (luckiest == nullptr) return {};
  if (!reached_target(study).empty()) return {luckiest->id, ""};
  const auto leader = scheduler.leader(study);
  if (!leader || leader->trial == luckiest->id) return {luckiest->id, ""};
  const Trial& trial = study.trial(leader->trial);
  const bool counts = trial.kind == TrialKind::search &&
                      has_results(study, trial) &&
                      best_report(study.recipe.objective, trial) != nullptr;
  if (!counts) return {luckiest->id, ""};
  return {trial.id, explain_leader(study, scheduler, *leader, *luckiest)};
}

FinalResult result_without_model(const Study& study, const Winner& winner,
                                 const std::string& why_over) {
  const StepReport& peak =
      *best_report(study.recipe.objective, study.trial(winner.trial));
  FinalResult result;
  result.best = winner.trial;
  result.step = peak.step;
  result.metrics = peak.metrics;
  result.why = why_over;
  result.chosen = winner.why;
  return result;
}

}  // namespace dtune
