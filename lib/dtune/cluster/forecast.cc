#include "dtune/cluster/forecast.h"

#include <algorithm>

namespace dtune {
namespace {

// The final training may have more threads than a trial of the search, and
// other work beside it.
constexpr double kFinalFastest = 0.6;
constexpr double kFinalSlowest = 1.5;
constexpr double kMostDone = 0.99;  // before the end

// Work is counted in steps; where steps are levels, in those of all images.
struct Seen {
  int64_t started = 0;
  int64_t steps = 0;  // all
  double work = 0;    // of them
  int longest = 0;    // steps of one trial
  double due = 0;     // work up to the targets of what runs
  double open = 0;    // work up to the horizon of what may still go on
};

// Steps of a full training; of an open-ended one, the longest seen.
int full_length(const Study& study, int longest) {
  return study.horizon < kOpenHorizon ? study.horizon : std::max(1, longest);
}

Seen look_at(const Study& study) {
  Seen seen;
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search) continue;
    if (trial.state == TrialState::invalid) continue;
    ++seen.started;
    seen.steps += trial.steps();
    seen.work += share_until(study.recipe, trial.steps(), study.horizon);
    seen.longest = std::max(seen.longest, trial.steps());
  }
  const int full = full_length(study, seen.longest);
  for (const Trial& trial : study.trials) {
    const bool ended =
        is_terminal(trial.state) && trial.state != TrialState::lost;
    if (trial.kind != TrialKind::search || ended) continue;
    const double done = share_until(study.recipe, trial.steps(), full);
    seen.open += std::max(0.0, share_until(study.recipe, full, full) - done);
    if (trial.state == TrialState::paused) continue;
    const int target = std::min(trial.target_step, full);
    seen.due += std::max(0.0, share_until(study.recipe, target, full) - done);
  }
  return seen;
}

// Seconds that a trial takes for a step's work, its checkpoints included; 0:
// unknown.
double step_seconds(const Study& study, const Trial& trial) {
  if (trial.curve.empty()) return 0;
  double sum = 0;
  for (const StepReport& report : trial.curve) {
    sum += report.seconds + report.checkpoint_seconds;
  }
  return sum /
         share_until(study.recipe, trial.steps(), last_step(study, trial));
}

// Of the search's work, as its steps follow each other in time.
double search_pace(const Study& study, const ForecastFacts& facts,
                   const Seen& seen) {
  if (facts.session_steps > 0 && facts.session > 0) {
    const double average =
        seen.steps > 0 ? seen.work / static_cast<double>(seen.steps) : 1;
    return facts.session / (static_cast<double>(facts.session_steps) * average);
  }
  double sum = 0;
  int64_t trials = 0;
  for (const Trial& trial : study.trials) {
    const double seconds = step_seconds(study, trial);
    sum += seconds;
    trials += seconds > 0 ? 1 : 0;
  }
  if (trials == 0) return 0;
  return sum / static_cast<double>(trials) / std::max(1, facts.trials_at_once);
}

std::optional<TimeRange> search_left(const Study& study,
                                     const ForecastFacts& facts) {
  const BudgetSpec& budget = study.recipe.budget;
  const double time_left =
      budget.time.count() > 0
          ? std::max(0.0, to_seconds(budget.time) - study.searched_seconds)
          : -1;
  const Seen seen = look_at(study);
  const double pace = search_pace(study, facts, seen);
  const bool counted = budget.trials > 0 || budget.steps > 0;
  if (!counted || pace <= 0) {
    if (time_left < 0) return std::nullopt;
    return TimeRange{counted ? 0 : time_left, time_left};
  }
  double low = seen.due;
  double high = seen.open;
  if (budget.trials > 0) {
    const auto fresh =
        static_cast<double>(std::max<int64_t>(0, budget.trials - seen.started));
    const double usual =
        seen.work / static_cast<double>(std::max<int64_t>(1, seen.started));
    const int full = full_length(study, seen.longest);
    low += fresh * std::max(share_until(study.recipe, 1, full), usual);
    high += fresh * share_until(study.recipe, full, full);
  }
  if (budget.steps > 0) {
    const auto steps =
        static_cast<double>(std::max<int64_t>(0, budget.steps - seen.steps));
    const double work =
        seen.steps > 0 ? steps * seen.work / static_cast<double>(seen.steps)
                       : steps;
    high = budget.trials > 0 ? std::min(high, work) : work;
    low = budget.trials > 0 ? std::min(low, work) : work;
  }
  TimeRange left{low * pace, std::max(low, high) * pace};
  if (time_left >= 0) {
    left = {std::min(left.low, time_left), std::min(left.high, time_left)};
  }
  return left;
}

// The test of the model, and what it takes to begin: an epoch of a level, else
// a step.
double test_work(const Study& study) {
  return trains_levels(study.recipe)
             ? 1 / std::max(1.0, study.recipe.train.epochs)
             : 1;
}

// Of the first `steps` of a final training of `all` steps.
double final_work(const Study& study, int all, int steps) {
  const double work = share_until(study.recipe, steps, all);
  const double epochs = study.recipe.final_training.epochs;
  // Other epochs are other steps, but of a level.
  const bool longer = trains_levels(study.recipe) && epochs > 0;
  return longer ? work * epochs / study.recipe.train.epochs : work;
}

// The final training before it has begun; empty: its point was not trained yet.
std::optional<TimeRange> final_ahead(const Study& study,
                                     const ForecastFacts& facts) {
  if (facts.final_steps == 0) return TimeRange{};
  if (facts.best == 0) return std::nullopt;
  const Trial& best = study.trial(facts.best);
  const int seeds = std::max(1, study.recipe.final_training.seeds);
  const int rounds =
      (seeds + facts.trials_at_once - 1) / std::max(1, facts.trials_at_once);
  const double seconds = step_seconds(study, best) * rounds;
  const double all = final_work(study, facts.final_steps, facts.final_steps);
  const double known = final_work(study, facts.final_steps, facts.final_known);
  const double test = test_work(study);
  return TimeRange{kFinalFastest * seconds * (all - known + test),
                   kFinalSlowest * seconds * (all + test)};
}

std::optional<TimeRange> final_left(const Study& study,
                                    const ForecastFacts& facts) {
  TimeRange longest;
  for (const TrialId id : facts.finals) {
    const Trial& trial = study.trial(id);
    const bool fresh = trial.curve.empty();
    const double seconds =
        step_seconds(study, fresh ? study.trial(facts.best) : trial);
    const int all = std::max(facts.final_steps, trial.steps());
    const double work = final_work(study, all, all) -
                        final_work(study, all, trial.steps()) +
                        test_work(study);
    longest.low = std::max(longest.low, kFinalFastest * seconds * work);
    longest.high = std::max(longest.high, kFinalSlowest * seconds * work);
  }
  return longest;
}

std::optional<TimeRange> time_left(const Study& study,
                                   const ForecastFacts& facts) {
  if (!facts.searching) return final_left(study, facts);
  const auto search = search_left(study, facts);
  const auto final_training = final_ahead(study, facts);
  if (!search || !final_training) return std::nullopt;
  return TimeRange{search->low + final_training->low,
                   search->high + final_training->high};
}

}  // namespace

Forecast Forecaster::estimate(const Study& study, const ForecastFacts& facts) {
  Forecast forecast;
  forecast.left = time_left(study, facts);
  if (forecast.left) {
    const double left = (forecast.left->low + forecast.left->high) / 2;
    const double all = facts.elapsed + left;
    const double done = all > 0 ? facts.elapsed / all : 0;
    done_ = std::max(done_, std::min(done, kMostDone));
  }
  forecast.done = done_;
  return forecast;
}

}  // namespace dtune
