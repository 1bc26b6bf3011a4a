// The state of a study in memory: what samplers, schedulers, reports and the
// live view read. The coordinator owns it and is its only writer.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtune/study/prediction.h"
#include "dtune/study/recipe.h"
#include "dtune/study/trial.h"

namespace dtune {

enum class StudyState { running, interrupted, finished, failed };

const char* to_string(StudyState state);
StudyState parse_study_state(const std::string& word);

// Which part took a decision.
enum class DecisionMaker {
  unknown,      // an older dtune kept no note of it
  next,         // Scheduler::next, asked for a free slot
  judge,        // Scheduler::judge, upon a report
  coordinator,  // by its own rules: horizon, divergence, budgets, clocks
};

const char* to_string(DecisionMaker maker);
DecisionMaker parse_decision_maker(const std::string& word);

// One choice of the scheduler, logged so that a study can be re-taken.
struct Decision {
  int64_t number = 0;  // 1, 2, ... over the whole study
  TrialId trial = 0;
  std::string action;  // "start", "resume", "pause", "cut", "complete", ...
  int step = 0;        // of the trial when it was taken
  std::string why;     // one sentence; numbers that justified it
  int64_t wall_ms = 0;
  DecisionMaker maker = DecisionMaker::unknown;
  int target_step = 0;          // of the trial, once it was taken
  int64_t after_report = -1;    // reports taken in before; -1: not known
  int64_t session = 0;          // of Study::sessions; 0: not known
  double searched_seconds = 0;  // Study::searched_seconds at that time
  Belief belief;                // of the tuner, where it took the decision
};

struct Study {
  std::string id;  // unique; names processes and folders
  Recipe recipe;
  std::string recipe_yaml;  // as resolved: overrides and defaults applied
  StudyState state = StudyState::running;
  int horizon = 1;              // steps of a full training
  double searched_seconds = 0;  // of the time budget, summed over resumes
  int64_t created_ms = 0;
  std::vector<Trial> trials;  // trials[i].id == i + 1
  int64_t decisions = 0;      // taken so far
  int64_t reports = 0;        // taken in so far: the last StepReport::sequence
  int64_t sessions = 0;       // runs and resumes of its coordinator so far

  const Trial& trial(TrialId number) const {
    return trials.at(size_t(number) - 1);
  }
  Trial& trial(TrialId number) { return trials.at(size_t(number) - 1); }
};

// A metric of a report; empty where it is missing or not finite.
std::optional<double> finite_metric(const StepReport& report,
                                    const std::string& metric);

// The metric of `recipe.objective` in a report, with the sign such that larger
// is better; empty where it is missing or not finite.
std::optional<double> objective_value(const ObjectiveSpec& objective,
                                      const StepReport& report);

// Every metric that the objective bounds (`require:`) was reported and is
// within its bounds.
bool meets_requirements(const ObjectiveSpec& objective,
                        const StepReport& report);

// The step of a trial with the best objective among those that meet the
// requirements, the earliest of equals; null where there is none.
const StepReport* best_report(const ObjectiveSpec& objective,
                              const Trial& trial);

// Of a study where no trial has a best_report(): that the objective was not
// reported, or that what was reported is beyond `require:`.
std::string why_no_report(const Study& study);

// Search trials that ended failed, lost, timed out or invalid, by id.
std::vector<const Trial*> failed_trials(const Study& study);

// What a study as a whole gives to `expect:`, beside what its trainings report.
struct StudyMetric {
  const char* name;
  double (*value)(const Study&);
};
std::span<const StudyMetric> study_metrics();

// The objective from a trial's curve: that of the best step, the last, or that
// at a step; empty where there is none.
std::optional<double> best_value(const ObjectiveSpec& objective,
                                 const Trial& trial);
std::optional<double> last_value(const ObjectiveSpec& objective,
                                 const Trial& trial);
std::optional<double> value_at(const ObjectiveSpec& objective,
                               const Trial& trial, int step);

// A trial's step that is held for the best.
struct Leader {
  TrialId trial = 0;
  int step = 0;
};

// Whether a trial's reports are results: those of one that runs, waits, is
// complete, or was paused, cut or timed out by a decision. Not those of one
// that failed (crashed, diverged, ...), unless limits.failed_results is `use`,
// or that called its point invalid.
bool has_results(const Study& study, const Trial& trial);

// The search trial with the best value over its steps, among those that have
// results; ties go to the earlier trial. Null where no such trial has a finite
// value. This is the point that a study ships.
const Trial* incumbent(const Study& study);

// The horizon: ceil(epochs * samples an epoch / samples a step), at least 1;
// the levels, where `fidelity` is data.limit; of a command: its `steps`, or
// kOpenHorizon where it says none (it then ends when it ends).
// `training_samples` is ignored for commands.
inline constexpr int kOpenHorizon = 1'000'000'000;
int horizon_steps(const Recipe& recipe, int64_t training_samples);
// "step 3", or "its end" where that is open.
std::string step_text(int step);

// The last step of the trial's training: the horizon, but of a final training
// its own, which may be of other epochs.
int last_step(const Study& study, const Trial& trial);

// `fidelity` is data.limit: the steps are trainings on more and more images.
bool trains_levels(const Recipe& recipe);
// The share of a full training's images that a step trains on: 1, but where
// steps are such levels. A step takes time in proportion.
double step_share(const Recipe& recipe, int step, int horizon);
// Those of the steps 1 .. `step`, summed; 0 for none.
double share_until(const Recipe& recipe, int step, int horizon);

// The last sequence number of the reports in the trials' whole curves: what
// Study::reports is after loading.
int64_t last_sequence(const std::vector<Trial>& trials);

// Search trials that `budget.trials` counts: all that were started, but those
// that called their point invalid.
int64_t trials_spent(const Study& study);

// Steps trained by all search trials: what `budget.steps` counts.
int64_t steps_spent(const Study& study);

}  // namespace dtune
