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
  const std::string own = fmt::format("{:.6g}", reported(study, trial));
  const std::string top = fmt::format("{:.6g}", reported(study, luckiest));
  text += fmt::format(" ({} was its best report); trial {} ", own, luckiest.id);
  if (own == top) return text + "has the same best report";
  return text + fmt::format(
                    "reported {}, which the other reports do not support", top);
}

// Of the width of its band: a smaller gain in the expected value is a tie.
constexpr double kTie = 0.01;

// Neighbours of a space are expected to be equal, however much their reports
// differ: then the network with the better report is the better one.
bool is_tie(const Study& study, const Scheduler& scheduler,
            const Leader& leader, const Trial& luckiest) {
  const auto best =
      scheduler.predict(study, study.trial(leader.trial), leader.step);
  const auto other = scheduler.predict(study, luckiest, leader.step);
  if (!best || !other) return false;
  const double gain = study.recipe.objective.goal == Goal::maximize
                          ? best->mean - other->mean
                          : other->mean - best->mean;
  return gain <= kTie * (best->high - best->low);
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
  if (!counts || is_tie(study, scheduler, *leader, *luckiest)) {
    return {luckiest->id, ""};
  }
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
