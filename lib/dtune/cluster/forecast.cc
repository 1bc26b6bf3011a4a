#include "dtune/cluster/forecast.h"

#include <algorithm>

namespace dtune {
namespace {

// The final training may have more threads than a trial of the search, and
// other work beside it.
constexpr double kFinalFastest = 0.6;
constexpr double kFinalSlowest = 1.5;
constexpr double kMostDone = 0.99;  // before the end

struct Seen {
  int64_t started = 0;
  int64_t steps = 0;  // all
  int longest = 0;    // of one trial
  int64_t due = 0;    // steps up to the targets of what runs
  int64_t open = 0;   // steps up to the horizon of what may still go on
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
    seen.longest = std::max(seen.longest, trial.steps());
  }
  const int full = full_length(study, seen.longest);
  for (const Trial& trial : study.trials) {
    const bool ended =
        is_terminal(trial.state) && trial.state != TrialState::lost;
    if (trial.kind != TrialKind::search || ended) continue;
    seen.open += std::max(0, full - trial.steps());
    if (trial.state == TrialState::paused) continue;
    seen.due += std::max(0, std::min(trial.target_step, full) - trial.steps());
  }
  return seen;
}

// Seconds that a trial's step takes, its checkpoint included; 0: unknown.
double step_seconds(const Trial& trial) {
  if (trial.curve.empty()) return 0;
  double sum = 0;
  for (const StepReport& report : trial.curve) {
    sum += report.seconds + report.checkpoint_seconds;
  }
  return sum / static_cast<double>(trial.curve.size());
}

// Of the search's steps, as they follow each other in time.
double search_pace(const Study& study, const ForecastFacts& facts) {
  if (facts.session_steps > 0 && facts.session > 0) {
    return facts.session / static_cast<double>(facts.session_steps);
  }
  double sum = 0;
  int64_t trials = 0;
  for (const Trial& trial : study.trials) {
    const double seconds = step_seconds(trial);
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
  const double pace = search_pace(study, facts);
  const bool counted = budget.trials > 0 || budget.steps > 0;
  if (!counted || pace <= 0) {
    if (time_left < 0) return std::nullopt;
    return TimeRange{counted ? 0 : time_left, time_left};
  }
  auto low = static_cast<double>(seen.due);
  auto high = static_cast<double>(seen.open);
  if (budget.trials > 0) {
    const auto fresh =
        static_cast<double>(std::max<int64_t>(0, budget.trials - seen.started));
    const double usual =
        static_cast<double>(seen.steps) /
        static_cast<double>(std::max<int64_t>(1, seen.started));
    low += fresh * std::max(1.0, usual);
    high += fresh * full_length(study, seen.longest);
  }
  if (budget.steps > 0) {
    const auto steps =
        static_cast<double>(std::max<int64_t>(0, budget.steps - seen.steps));
    high = budget.trials > 0 ? std::min(high, steps) : steps;
    low = budget.trials > 0 ? std::min(low, steps) : steps;
  }
  TimeRange left{low * pace, std::max(low, high) * pace};
  if (time_left >= 0) {
    left = {std::min(left.low, time_left), std::min(left.high, time_left)};
  }
  return left;
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
  const double seconds = step_seconds(best) * rounds;
  // One step is the test of the model, and what it takes to begin.
  const int all = facts.final_steps + 1;
  return TimeRange{kFinalFastest * seconds * (all - facts.final_known),
                   kFinalSlowest * seconds * all};
}

std::optional<TimeRange> final_left(const Study& study,
                                    const ForecastFacts& facts) {
  TimeRange longest;
  for (const TrialId id : facts.finals) {
    const Trial& trial = study.trial(id);
    const double seconds =
        step_seconds(trial.curve.empty() ? study.trial(facts.best) : trial);
    const int steps = std::max(0, facts.final_steps - trial.steps()) + 1;
    longest.low = std::max(longest.low, kFinalFastest * seconds * steps);
    longest.high = std::max(longest.high, kFinalSlowest * seconds * steps);
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
