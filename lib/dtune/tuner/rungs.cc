#include "dtune/tuner/rungs.h"

#include <algorithm>
#include <limits>

#include "dtune/base/error.h"

namespace dtune {

Rungs::Rungs(std::vector<int> steps, int eta)
    : steps_(std::move(steps)), eta_(eta) {
  DTUNE_CHECK(!steps_.empty() && eta_ >= 2);
}

std::optional<size_t> Rungs::reached(const Trial& trial) const {
  const auto above =
      std::upper_bound(steps_.begin(), steps_.end(), trial.steps());
  if (above == steps_.begin()) return std::nullopt;
  return size_t(above - steps_.begin()) - 1;
}

int Rungs::next_step(const Trial& trial) const {
  const auto above =
      std::upper_bound(steps_.begin(), steps_.end(), trial.steps());
  return above == steps_.end() ? steps_.back() : *above;
}

bool Rungs::counts(const Trial& trial, size_t rung) const {
  if (trial.kind != TrialKind::search) return false;
  if (trial.state == TrialState::invalid) return false;
  if (trial.steps() >= steps_[rung]) return true;
  const bool gone = trial.state == TrialState::failed ||
                    trial.state == TrialState::timed_out ||
                    trial.state == TrialState::cut;
  return gone && (rung == 0 || trial.steps() >= steps_[rung - 1]);
}

std::vector<RungResult> Rungs::results(const Study& study,
                                       const CurveBook& curves,
                                       size_t rung) const {
  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  std::vector<RungResult> members;
  for (const Trial& trial : study.trials) {
    if (!counts(trial, rung)) continue;
    const bool there = trial.steps() >= steps_[rung];
    const auto value =
        there ? curves.best_until(trial.id, steps_[rung]) : std::nullopt;
    members.push_back({trial.id, value.value_or(kLowest)});
  }
  std::stable_sort(members.begin(), members.end(),
                   [](const RungResult& a, const RungResult& b) {
                     return a.value > b.value;
                   });
  return members;
}

bool Rungs::goes_on(const std::vector<RungResult>& results,
                    TrialId trial) const {
  const size_t first = quota(results.size());
  for (size_t i = 0; i < first; ++i) {
    if (results[i].trial != trial) continue;
    return results[i].value > -std::numeric_limits<double>::infinity();
  }
  return false;
}

}  // namespace dtune
