#include "dtune/cluster/incumbent.h"

#include <utility>

namespace dtune {

Incumbent::Incumbent(const Study& study, std::filesystem::path checkpoints)
    : study_(study), checkpoints_(std::move(checkpoints)) {}

void Incumbent::recover() {
  find();
  Checkpoints::Steps kept;
  for (const Trial& trial : study_.trials) {
    if (trial.kind == TrialKind::search && trial.id != best_) continue;
    const StepReport* report = best_report(study_.recipe.objective, trial);
    if (report != nullptr) kept[trial.id] = report->step;
  }
  checkpoints_.recover(kept);
}

TrialId Incumbent::note(const Trial& trial, const StepReport& report) {
  if (trial.kind != TrialKind::search) return 0;
  const ObjectiveSpec& objective = study_.recipe.objective;
  const auto value = objective_value(objective, report);
  if (!value || !meets_requirements(objective, report)) return 0;
  // Ties go to the earlier trial, as in incumbent().
  const bool better =
      best_ == 0 || *value > value_ || (*value == value_ && trial.id < best_);
  if (!better) return 0;
  value_ = *value;
  const TrialId before = std::exchange(best_, trial.id);
  if (before == best_) return 0;
  if (before != 0) checkpoints_.forget_step(before);
  return before;
}

void Incumbent::reconsider(const Trial& failed) {
  if (failed.id == best_) find();
}

void Incumbent::find() {
  const Trial* best = incumbent(study_);
  const TrialId before = std::exchange(best_, best == nullptr ? 0 : best->id);
  if (before != 0 && before != best_) checkpoints_.forget_step(before);
  value_ = best == nullptr ? 0 : *best_value(study_.recipe.objective, *best);
}

void Incumbent::appoint(TrialId trial) {
  const TrialId before = std::exchange(best_, trial);
  if (before != 0 && before != best_) checkpoints_.forget_step(before);
  value_ = *best_value(study_.recipe.objective, study_.trial(trial));
}

void Incumbent::keep_step(const Trial& trial, int step) {
  const bool eligible = trial.kind == TrialKind::final || trial.id == best_;
  const StepReport* best =
      eligible ? best_report(study_.recipe.objective, trial) : nullptr;
  if (best != nullptr && best->step == step) {
    checkpoints_.keep(trial.id, step);
  } else {
    checkpoints_.pass_over(trial.id, step);
  }
}

}  // namespace dtune
