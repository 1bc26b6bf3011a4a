#include "dtune/cluster/backup_copies.h"

#include <algorithm>
#include <utility>

#include "dtune/base/order_statistic.h"

namespace dtune {
namespace {

// A copy must be expected to need less than 1 / kGain of what is left.
constexpr double kGain = 2;
// Of the expected time; before that, what is left is not estimated.
constexpr double kPatience = 2;
constexpr double kLeastSeconds = 1;
// Less of a step says nothing about its rest.
constexpr double kLeastFraction = 0.02;

// Of the images, by which steps differ.
double share_of_step(const Study& study, const Trial& trial, int step) {
  return step_share(study.recipe, step, last_step(study, trial));
}

}  // namespace

double BackupCopies::usual_step(const Trial& trial) const {
  if (trial.curve.empty()) return 0;
  UsualStep& usual = usual_[trial.id];
  if (usual.steps == trial.steps()) return usual.seconds;
  std::vector<double> step_times;
  for (const StepReport& report : trial.curve) {
    const double share = share_of_step(study_, trial, report.step);
    if (report.seconds > 0) step_times.push_back(report.seconds / share);
  }
  usual.steps = trial.steps();
  usual.seconds = step_times.empty() ? 0 : upper_median(std::move(step_times));
  return usual.seconds;
}

double BackupCopies::expected_step(const Trial& trial) const {
  const double share = share_of_step(study_, trial, trial.steps() + 1);
  const double own = usual_step(trial);
  if (own > 0) return share * own;
  if (slowest_at_ != study_.reports) {
    slowest_at_ = study_.reports;
    slowest_ = 0;
    for (const Trial& other : study_.trials) {
      slowest_ = std::max(slowest_, usual_step(other));
    }
  }
  return share * slowest_;
}

double BackupCopies::gain(const Trial& trial,
                          const RegisteredSlot& slot) const {
  if (trial.state != TrialState::running || has(trial.id)) return 0;
  if (slot.state != SlotState::busy || slot.at_target) return 0;
  if (!slot.step_began) return 0;  // a copy would have to start as well
  const double elapsed = to_seconds(clock_.now() - *slot.step_began);
  if (elapsed < kLeastSeconds) return 0;
  const double expected = expected_step(trial);
  if (expected <= 0 || elapsed < kPatience * expected) return 0;
  const double done = slot.progress.fraction;
  // Without a word on its progress it may take as long again.
  const double left =
      done > kLeastFraction ? elapsed * (1 - done) / done : elapsed;
  return left > kGain * expected ? left - expected : 0;
}

bool BackupCopies::is(TrialId id, Attempt attempt) const {
  const auto copy = copies_.find(id);
  return copy != copies_.end() && copy->second.attempt == attempt;
}

std::optional<BackupCopy> BackupCopies::take(TrialId id) {
  const auto copy = copies_.find(id);
  if (copy == copies_.end()) return std::nullopt;
  BackupCopy taken = copy->second;
  copies_.erase(copy);
  return taken;
}

}  // namespace dtune
