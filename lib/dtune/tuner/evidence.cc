#include "dtune/tuner/evidence.h"

#include <algorithm>
#include <cmath>

namespace dtune {
namespace {

// The trial itself is to blame: its point is a bad one.
bool blames_point(const Trial& trial) {
  return trial.state == TrialState::failed ||
         trial.state == TrialState::invalid ||
         (trial.state == TrialState::timed_out && trial.curve.empty());
}

// Steps of a full training; of an open-ended one, the longest seen.
int full_length(const Study& study) {
  if (study.horizon < kOpenHorizon) return std::max(1, study.horizon);
  int longest = 1;
  for (const Trial& trial : study.trials) {
    longest = std::max(longest, trial.steps());
  }
  return longest;
}

double length_of(const Trial& trial, int full) {
  if (trial.state == TrialState::complete) return 1;
  return std::min(1.0, std::log1p(trial.steps()) / std::log1p(full));
}

// Broken trials get the worst value of the others.
void value_broken(std::vector<Outcome>& outcomes) {
  double worst = INFINITY;
  for (const Outcome& outcome : outcomes) {
    if (!outcome.broken) worst = std::min(worst, outcome.value);
  }
  if (!std::isfinite(worst)) worst = 0;
  for (Outcome& outcome : outcomes) {
    if (outcome.broken) outcome.value = worst;
  }
}

}  // namespace

bool is_pending(const Trial& trial) {
  return trial.state == TrialState::waiting ||
         trial.state == TrialState::running;
}

Evidence gather_evidence(const Study& study) {
  constexpr double kLargest = 1e100;
  const int full = full_length(study);
  Evidence evidence;
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search) continue;
    const auto best = best_value(study.recipe.objective, trial);
    if (is_pending(trial)) evidence.pending.push_back(&trial);
    if (blames_point(trial)) {
      evidence.outcomes.push_back({&trial, 0, 1, true});
    } else if (best) {
      evidence.outcomes.push_back({&trial,
                                   std::clamp(*best, -kLargest, kLargest),
                                   length_of(trial, full), false});
    }
  }
  const auto running = [](const Outcome& o) { return is_pending(*o.trial); };
  for (const Outcome& outcome : evidence.outcomes) {
    if (!running(outcome) && outcome.length < 1) evidence.mixed_lengths = true;
  }
  if (!evidence.mixed_lengths) std::erase_if(evidence.outcomes, running);
  value_broken(evidence.outcomes);
  const auto differs = [&](const Outcome& outcome) {
    return outcome.value != evidence.outcomes.front().value;
  };
  evidence.varied =
      std::any_of(evidence.outcomes.begin(), evidence.outcomes.end(), differs);
  return evidence;
}

}  // namespace dtune
