// Trials that straggle: a copy on an idle slot, first to finish wins (Dean and
// Ghemawat 2004, OSDI, section 3.6: backup tasks).
#include <algorithm>

#include <fmt/format.h>

#include "dtune/cluster/conductor.h"

namespace dtune {
namespace {

// A copy must be expected to need less than 1 / kGain of what is left.
constexpr double kGain = 2;
// Of the expected time; before that, what is left is not estimated.
constexpr double kPatience = 2;
constexpr double kLeastSeconds = 1;
// Less of a step says nothing about its rest.
constexpr double kLeastFraction = 0.02;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double usual_step(const Trial& trial) {
  std::vector<double> step_times;
  for (const StepReport& report : trial.curve) {
    if (report.seconds > 0) step_times.push_back(report.seconds);
  }
  return median(std::move(step_times));
}

}  // namespace

// What the trial's step should take: what its own took, else the slowest of
// the others' usual ones, since trials may be of different size.
double Conductor::expected_step(const Trial& trial) const {
  const double own = usual_step(trial);
  if (own > 0) return own;
  double slowest = 0;
  for (const Trial& other : study_.trials) {
    slowest = std::max(slowest, usual_step(other));
  }
  return slowest;
}

// How much longer the step in flight takes than a copy of it would, in seconds;
// 0: no copy pays.
double Conductor::gain_of_copy(const Trial& trial) const {
  const TrialRun& run = runs_[size_t(trial.id) - 1];
  if (trial.state != TrialState::running || run.copy || !run.gang.empty() ||
      run.seats.size() != 1) {
    return 0;
  }
  const FleetSlot& slot = fleet_.slots()[run.seats[0].slot];
  if (slot.state != SlotState::busy || slot.at_target) return 0;
  const double elapsed = to_seconds(clock_.now() - slot.last_report);
  if (elapsed < kLeastSeconds) return 0;
  const double expected = expected_step(trial);
  if (expected <= 0 || elapsed < kPatience * expected) return 0;
  const double done = slot.progress.fraction;
  // Without a word on its progress it may take as long again.
  const double left =
      done > kLeastFraction ? elapsed * (1 - done) / done : elapsed;
  return left > kGain * expected ? left - expected : 0;
}

void Conductor::copy_stragglers() {
  if (deterministic_ || study_.recipe.command || stop_level_ > 0) return;
  const auto& slots = fleet_.slots();
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].state != SlotState::idle) continue;
    Trial* slowest = nullptr;
    double most = 0;
    for (const TrialId id : leased()) {
      Trial& trial = study_.trial(id);
      const double gain = gain_of_copy(trial);
      if (gain > most) {
        most = gain;
        slowest = &trial;
      }
    }
    if (slowest == nullptr) return;
    start_copy(*slowest, i);
  }
}

void Conductor::start_copy(Trial& trial, size_t index) {
  TrialRun& run = runs_[size_t(trial.id) - 1];
  const FleetSlot& original = fleet_.slots()[run.seats[0].slot];
  const FleetSlot& slot = fleet_.slots()[index];
  run.copy = Copy{index, ++run.last_attempt};
  const std::string why = fmt::format(
      "straggling: step {} takes {} so far on {} {}, {} was expected; a copy "
      "runs on {} {}",
      trial.steps() + 1, format_duration(clock_.now() - original.last_report),
      fleet_.agent_of(original).node, original.number,
      format_duration(from_seconds(expected_step(trial))),
      fleet_.agent_of(slot).node, slot.number);
  records_.change(trial, TrialState::running, Reason::straggling, why);
  records_.notice(fmt::format("trial {}: {}", trial.id, why));
  control::Assign assign = describe(trial, original.granted, Seat{index, 0});
  assign.attempt = run.copy->attempt;
  this->assign(index, std::move(assign));
}

bool Conductor::is_copy(const Trial& trial, Attempt attempt) const {
  const auto& copy = runs_[size_t(trial.id) - 1].copy;
  return copy && copy->attempt == attempt;
}

// The copy was first: it is the trial now, and the straggler is cut.
void Conductor::promote_copy(Trial& trial) {
  TrialRun& run = runs_[size_t(trial.id) - 1];
  const FleetSlot& winner = fleet_.slots()[run.copy->slot];
  const std::string why =
      fmt::format("superseded: the copy on {} {} was first",
                  fleet_.agent_of(winner).node, winner.number);
  for (const Seat& seat : run.seats) {
    fleet_.release(seat.slot, false, study_.recipe.limits.grace);
  }
  trial.attempt = run.copy->attempt;
  trial.node = fleet_.agent_of(winner).node;
  trial.slot = winner.number;
  run.seats = {{run.copy->slot, 0}};
  run.reported = 0;
  run.copy.reset();
  records_.change(trial, TrialState::running, Reason::superseded, why);
  records_.notice(fmt::format("trial {}: {}", trial.id, why));
}

void Conductor::drop_copy(const Trial& trial) {
  TrialRun& run = runs_[size_t(trial.id) - 1];
  if (!run.copy) return;
  fleet_.release(run.copy->slot, false);
  run.copy.reset();
}

}  // namespace dtune
