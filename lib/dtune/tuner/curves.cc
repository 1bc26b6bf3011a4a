#include "dtune/tuner/curves.h"

#include <algorithm>

namespace dtune {

void CurveBook::update(const Study& study) {
  if (study_id_ != study.id || entries_.size() > study.trials.size()) {
    entries_.clear();
    study_id_ = study.id;
  }
  entries_.resize(study.trials.size());
  for (size_t i = 0; i < study.trials.size(); ++i) {
    const Trial& trial = study.trials[i];
    Entry& entry = entries_[i];
    if (entry.seed == trial.seed && entry.attempt == trial.attempt &&
        entry.steps == trial.steps()) {
      continue;
    }
    read(study.recipe.objective, trial, entry);
  }
}

void CurveBook::read(const ObjectiveSpec& objective, const Trial& trial,
                     Entry& entry) {
  entry = Entry{trial.seed, trial.attempt, trial.steps(), {}, {}, {}};
  double sum = 0;
  for (const StepReport& report : trial.curve) {
    const auto value = objective_value(objective, report);
    if (!value) continue;
    sum += *value;
    entry.best.push_back(
        entry.best.empty() ? *value : std::max(entry.best.back(), *value));
    entry.at.push_back(report.step);
    entry.mean.push_back(sum / static_cast<double>(entry.at.size()));
  }
}

std::optional<double> CurveBook::last_until(const Entry& entry,
                                            const std::vector<double>& values,
                                            int step) {
  const auto end = std::upper_bound(entry.at.begin(), entry.at.end(), step);
  if (end == entry.at.begin()) return std::nullopt;
  return values[size_t(end - entry.at.begin()) - 1];
}

std::optional<double> CurveBook::best_until(TrialId trial, int step) const {
  const Entry& entry = entries_.at(size_t(trial) - 1);
  return last_until(entry, entry.best, step);
}

std::optional<double> CurveBook::mean_until(TrialId trial, int step) const {
  const Entry& entry = entries_.at(size_t(trial) - 1);
  return last_until(entry, entry.mean, step);
}

bool has_gained(const ObjectiveSpec& objective, const Trial& trial,
                double noise) {
  const auto first = objective_value(objective, trial.curve.front());
  const auto last = objective_value(objective, trial.curve.back());
  if (!first || !last) return last.has_value();
  const bool share = *first >= 0 && *first <= 1;
  return *last - *first > (share ? noise * (1 - *first) : 0);
}

bool nothing_learnt(const Study& study) {
  bool any = false;
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search || trial.curve.size() < 2) continue;
    if (has_gained(study.recipe.objective, trial, kNoGain)) return false;
    any = true;
  }
  return any;
}

bool any_active(const Study& study) {
  return std::any_of(study.trials.begin(), study.trials.end(),
                     [](const Trial& trial) {
                       return trial.kind == TrialKind::search &&
                              (trial.state == TrialState::running ||
                               trial.state == TrialState::waiting);
                     });
}

const Trial* interrupted_trial(const Study& study, int target) {
  for (const Trial& trial : study.trials) {
    if (trial.kind == TrialKind::search && trial.state == TrialState::paused &&
        trial.steps() < std::max(target, trial.target_step)) {
      return &trial;
    }
  }
  return nullptr;
}

}  // namespace dtune
