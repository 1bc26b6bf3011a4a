#include "dtune/cluster/stop_rules.h"

#include <fmt/format.h>

#include "dtune/study/plateau.h"

namespace dtune {

std::string reached_target(const Study& study) {
  const std::optional<double>& target = study.recipe.stop.target;
  if (!target) return "";
  const Trial* best = incumbent(study);
  if (best == nullptr) return "";
  const ObjectiveSpec& objective = study.recipe.objective;
  const StepReport& report = *best_report(objective, *best);
  const double value = report.metrics.at(objective.metric);
  const bool reached =
      objective.goal == Goal::maximize ? value >= *target : value <= *target;
  if (!reached) return "";
  return fmt::format(
      "the target of {:.6g} is reached: trial {} has {} {:.6g} "
      "at step {}",
      *target, best->id, objective.metric, value, report.step);
}

std::string on_plateau(const Study& study, const Scheduler& scheduler) {
  const StopSpec& stop = study.recipe.stop;
  if (stop.gain <= 0) return "";
  // What is quick to know first.
  const auto by_new = chance_of_gain(study, stop.gain, kPlateauShare);
  if (!by_new || *by_new >= stop.chance) return "";
  const auto chance = scheduler.chance_of_gain(study, stop.gain, kPlateauShare);
  if (!chance || *chance >= stop.chance) return "";
  return fmt::format(
      "a fifth more trials would improve {} by more than {:g} "
      "with a probability of {:.2g} only",
      study.recipe.objective.metric, stop.gain, *chance);
}

}  // namespace dtune
