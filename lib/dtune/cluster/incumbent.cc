#include "dtune/cluster/incumbent.h"

#include <algorithm>
#include <utility>

namespace dtune {

Incumbent::Incumbent(const Study& study, std::filesystem::path checkpoints)
    : study_(study), checkpoints_(std::move(checkpoints)) {}

bool Incumbent::is_contender(TrialId trial) const {
  return std::any_of(best_.begin(), best_.end(),
                     [&](const Contender& c) { return c.trial == trial; });
}

void Incumbent::recover() {
  find();
  Checkpoints::Steps kept;
  for (const Trial& trial : study_.trials) {
    if (trial.kind == TrialKind::search && !is_contender(trial.id)) continue;
    const StepReport* report = best_report(study_.recipe.objective, trial);
    if (report != nullptr) kept[trial.id] = report->step;
  }
  checkpoints_.recover(kept);
}

// In its place; the last may be one too many.
void Incumbent::insert(const Contender& contender) {
  const auto before = [](const Contender& a, const Contender& b) {
    return a.value != b.value ? a.value > b.value : a.trial < b.trial;
  };
  best_.insert(std::upper_bound(best_.begin(), best_.end(), contender, before),
               contender);
}

TrialId Incumbent::note(const Trial& trial, const StepReport& report) {
  if (trial.kind != TrialKind::search) return 0;
  const ObjectiveSpec& objective = study_.recipe.objective;
  const auto value = objective_value(objective, report);
  if (!value || !meets_requirements(objective, report)) return 0;
  const auto known =
      std::find_if(best_.begin(), best_.end(),
                   [&](const Contender& c) { return c.trial == trial.id; });
  if (known != best_.end()) {
    if (*value <= known->value) return 0;
    best_.erase(known);
  }
  insert({trial.id, *value});
  if (best_.size() <= kContenders) return 0;
  const TrialId last = give_up_last();
  return last == trial.id ? 0 : last;
}

void Incumbent::reconsider(const Trial& failed) {
  if (is_contender(failed.id)) find();
}

void Incumbent::find() {
  std::vector<Contender> found;
  std::swap(found, best_);
  for (const Trial& trial : study_.trials) {
    if (trial.kind != TrialKind::search || !has_results(study_, trial))
      continue;
    const auto value = best_value(study_.recipe.objective, trial);
    if (value) insert({trial.id, *value});
    if (best_.size() > kContenders) best_.pop_back();
  }
  std::swap(found, best_);
  replace(std::move(found));
}

std::vector<TrialId> Incumbent::appoint(TrialId trial) {
  return replace(
      {{trial, *best_value(study_.recipe.objective, study_.trial(trial))}});
}

TrialId Incumbent::give_up_last() {
  if (best_.size() < 2) return 0;
  const TrialId last = best_.back().trial;
  best_.pop_back();
  checkpoints_.forget_step(last);
  return last;
}

// Returns those that were contenders.
std::vector<TrialId> Incumbent::replace(std::vector<Contender> best) {
  std::swap(best, best_);
  std::vector<TrialId> left;
  for (const Contender& before : best) {
    if (is_contender(before.trial)) continue;
    checkpoints_.forget_step(before.trial);
    left.push_back(before.trial);
  }
  return left;
}

void Incumbent::keep_step(const Trial& trial, int step) {
  const bool eligible =
      trial.kind == TrialKind::final || is_contender(trial.id);
  const StepReport* best =
      eligible ? best_report(study_.recipe.objective, trial) : nullptr;
  if (best != nullptr && best->step == step) {
    checkpoints_.keep(trial.id, step);
  } else {
    checkpoints_.pass_over(trial.id, step);
  }
}

}  // namespace dtune
