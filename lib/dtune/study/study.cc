#include "dtune/study/study.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dtune/study/words.h"

namespace dtune {
namespace {

constexpr Words<4> kStudyStates = {"running", "interrupted", "finished",
                                   "failed"};
static_assert(size_t(StudyState::failed) + 1 == kStudyStates.size());

constexpr Words<4> kMakers = {"unknown", "next", "judge", "coordinator"};
static_assert(size_t(DecisionMaker::coordinator) + 1 == kMakers.size());

bool is_reported(const Study& study, const std::string& metric) {
  return std::ranges::any_of(study.trials, [&](const Trial& trial) {
    return std::ranges::any_of(trial.curve, [&](const StepReport& report) {
      return report.metrics.contains(metric);
    });
  });
}

}  // namespace

const char* to_string(StudyState state) { return word_of(kStudyStates, state); }

StudyState parse_study_state(const std::string& word) {
  return stored_value<StudyState>(kStudyStates, word, "study state");
}

const char* to_string(DecisionMaker maker) { return word_of(kMakers, maker); }

DecisionMaker parse_decision_maker(const std::string& word) {
  return stored_value<DecisionMaker>(kMakers, word, "maker of a decision");
}

std::optional<double> finite_metric(const StepReport& report,
                                    const std::string& metric) {
  const auto found = report.metrics.find(metric);
  if (found == report.metrics.end() || !std::isfinite(found->second)) {
    return std::nullopt;
  }
  return found->second;
}

std::optional<double> objective_value(const ObjectiveSpec& objective,
                                      const StepReport& report) {
  const auto value = finite_metric(report, objective.metric);
  if (!value || objective.goal == Goal::maximize) return value;
  return -*value;
}

const StepReport* best_report(const ObjectiveSpec& objective,
                              const Trial& trial) {
  const StepReport* best = nullptr;
  double best_so_far = 0;
  for (const StepReport& report : trial.curve) {
    const auto value = objective_value(objective, report);
    if (!value || !meets_requirements(objective, report)) continue;
    if (best == nullptr || *value > best_so_far) {
      best = &report;
      best_so_far = *value;
    }
  }
  return best;
}

bool meets_requirements(const ObjectiveSpec& objective,
                        const StepReport& report) {
  return std::all_of(objective.require.begin(), objective.require.end(),
                     [&](const Expectation& bound) {
                       const auto found = report.metrics.find(bound.metric);
                       return found != report.metrics.end() &&
                              bound.holds(found->second);
                     });
}

std::string why_no_report(const Study& study) {
  const ObjectiveSpec& objective = study.recipe.objective;
  const auto reported = std::count_if(
      study.trials.begin(), study.trials.end(), [&](const Trial& trial) {
        return std::any_of(
            trial.curve.begin(), trial.curve.end(),
            [&](const StepReport& report) {
              return objective_value(objective, report).has_value();
            });
      });
  if (reported == 0 || objective.require.empty()) {
    return fmt::format("no trial has a finite {}", objective.metric);
  }
  std::vector<std::string> bounds;
  std::string none_reported;
  for (const Expectation& bound : objective.require) {
    bounds.push_back(bound.metric + " " + bound.text);
    if (is_reported(study, bound.metric)) continue;
    none_reported = fmt::format(": none reported {}", bound.metric);
    if (study.recipe.command) {
      none_reported += fmt::format(
          " (a step ends with the line of {}: print it "
          "there or before)",
          objective.metric);
    }
  }
  return fmt::format(
      "no step of the {} trials that reported {} meets 'require: {}'{}",
      reported, objective.metric, fmt::join(bounds, ", "), none_reported);
}

std::vector<const Trial*> failed_trials(const Study& study) {
  std::vector<const Trial*> failed;
  for (const Trial& trial : study.trials) {
    if (trial.kind == TrialKind::search && is_failure(trial.state)) {
      failed.push_back(&trial);
    }
  }
  return failed;
}

std::span<const StudyMetric> study_metrics() {
  static constexpr StudyMetric kAll[] = {
      {"trials",
       [](const Study& study) {
         return static_cast<double>(std::count_if(
             study.trials.begin(), study.trials.end(), [](const Trial& trial) {
               return trial.kind == TrialKind::search;
             }));
       }},
      {"failed_trials",
       [](const Study& study) {
         return static_cast<double>(failed_trials(study).size());
       }},
      {"search_seconds",
       [](const Study& study) { return study.searched_seconds; }},
  };
  return kAll;
}

std::optional<double> best_value(const ObjectiveSpec& objective,
                                 const Trial& trial) {
  const StepReport* best = best_report(objective, trial);
  return best == nullptr ? std::nullopt : objective_value(objective, *best);
}

std::optional<double> last_value(const ObjectiveSpec& objective,
                                 const Trial& trial) {
  if (trial.curve.empty()) return std::nullopt;
  return objective_value(objective, trial.curve.back());
}

std::optional<double> value_at(const ObjectiveSpec& objective,
                               const Trial& trial, int step) {
  const auto found =
      std::lower_bound(trial.curve.begin(), trial.curve.end(), step,
                       [](const StepReport& report, int wanted) {
                         return report.step < wanted;
                       });
  if (found == trial.curve.end() || found->step != step) return std::nullopt;
  return objective_value(objective, *found);
}

bool has_results(const Study& study, const Trial& trial) {
  if (trial.state == TrialState::invalid) return false;
  if (study.recipe.limits.failed_results == FailedResults::use) return true;
  // One that waits to be tried again has lost its node, or failed by itself.
  const bool failed_itself =
      trial.reason == Reason::crashed || trial.reason == Reason::bad_output;
  return trial.state != TrialState::failed &&
         !(trial.state == TrialState::lost && failed_itself);
}

const Trial* incumbent(const Study& study) {
  const Trial* best = nullptr;
  double best_so_far = 0;
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search || !has_results(study, trial)) continue;
    const auto value = best_value(study.recipe.objective, trial);
    if (value && (best == nullptr || *value > best_so_far)) {
      best = &trial;
      best_so_far = *value;
    }
  }
  return best;
}

int horizon_steps(const Recipe& recipe, int64_t training_samples) {
  if (recipe.command) {
    return recipe.command->steps > 0 ? recipe.command->steps : kOpenHorizon;
  }
  if (trains_levels(recipe)) return recipe.fidelity.levels;
  const TrainSpec& train = recipe.train;
  double steps = train.epochs;
  if (train.step_samples > 0) {
    steps *= static_cast<double>(training_samples) /
             static_cast<double>(train.step_samples);
  }
  // Epochs such as 0.3 / 0.1 must not gain a step from rounding.
  steps = std::ceil(steps * (1 - 1e-12));
  return static_cast<int>(std::clamp(steps, 1.0, double{kOpenHorizon}));
}

std::string step_text(int step) {
  return step >= kOpenHorizon ? "its end" : "step " + std::to_string(step);
}

int last_step(const Study& study, const Trial& trial) {
  if (trial.kind != TrialKind::final) return study.horizon;
  return std::max(trial.target_step, trial.steps());
}

bool trains_levels(const Recipe& recipe) {
  return recipe.fidelity.kind == FidelityKind::data_limit;
}

double step_share(const Recipe& recipe, int step, int horizon) {
  const bool part = trains_levels(recipe) && step < horizon;
  return part ? std::exp2(step - horizon) : 1;
}

double share_until(const Recipe& recipe, int step, int horizon) {
  if (!trains_levels(recipe)) return step;
  return std::exp2(step + 1 - horizon) - std::exp2(1 - horizon);
}

int64_t last_sequence(const std::vector<Trial>& trials) {
  int64_t last = 0;
  for (const Trial& trial : trials) {
    for (const StepReport& report : trial.curve) {
      last = std::max(last, report.sequence);
    }
  }
  return last;
}

int64_t trials_spent(const Study& study) {
  return std::count_if(
      study.trials.begin(), study.trials.end(), [](const Trial& t) {
        return t.kind == TrialKind::search && t.state != TrialState::invalid;
      });
}

int64_t steps_spent(const Study& study) {
  int64_t steps = 0;
  for (const Trial& trial : study.trials) {
    if (trial.kind == TrialKind::search) steps += trial.steps();
  }
  return steps;
}

}  // namespace dtune
