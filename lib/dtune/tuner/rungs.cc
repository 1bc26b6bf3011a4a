#include "dtune/tuner/rungs.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "dtune/base/error.h"

namespace dtune {

Rungs::Rungs(std::vector<int> steps, int eta, std::vector<double> shares)
    : steps_(std::move(steps)), eta_(eta), shares_(std::move(shares)) {
  DTUNE_CHECK(!steps_.empty() && eta_ >= 2);
  DTUNE_CHECK(!shares_.empty() && shares_.size() <= steps_.size());
  const double sum = std::accumulate(shares_.begin(), shares_.end(), 0.0);
  for (double& share : shares_) share /= sum;
}

// The golden ratio's multiples spread evenly over the unit interval, which the
// brackets divide by their shares.
size_t Rungs::bracket(TrialId trial) const {
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio
  double place = double(uint64_t(trial - 1) * kGolden) * 0x1p-64;
  size_t bracket = 0;
  while (bracket + 1 < brackets() && place >= shares_[bracket]) {
    place -= shares_[bracket++];
  }
  return bracket;
}

std::optional<size_t> Rungs::reached(const Trial& trial) const {
  if (trial.steps() < first_step(trial.id)) return std::nullopt;
  const auto above =
      std::upper_bound(steps_.begin(), steps_.end(), trial.steps());
  return size_t(above - steps_.begin()) - 1;
}

int Rungs::next_step(const Trial& trial) const {
  const auto above =
      std::upper_bound(steps_.begin(), steps_.end(), trial.steps());
  return std::max(first_step(trial.id),
                  above == steps_.end() ? steps_.back() : *above);
}

bool Rungs::counts(const Trial& trial, size_t bracket, size_t rung) const {
  if (trial.kind != TrialKind::search) return false;
  if (trial.state == TrialState::invalid) return false;
  const int steps = trial.steps();
  const bool gone = trial.state == TrialState::failed ||
                    trial.state == TrialState::timed_out ||
                    trial.state == TrialState::cut;
  const bool lost = gone && (rung == bracket || steps >= steps_[rung - 1]);
  return (lost || steps >= steps_[rung]) && this->bracket(trial.id) == bracket;
}

std::vector<RungResult> Rungs::results(const Study& study,
                                       const CurveBook& curves, size_t bracket,
                                       size_t rung) const {
  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  std::vector<RungResult> members;
  for (const Trial& trial : study.trials) {
    if (!counts(trial, bracket, rung)) continue;
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
