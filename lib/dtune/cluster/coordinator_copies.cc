// Backup copies of trials that straggle: their leases.
#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "dtune/cluster/coordinator_impl.h"

namespace dtune {

// A gang has its own means.
double Coordinator::Impl::gain_of_copy(const Trial& trial) const {
  const std::vector<LeasedSlot>& held = leases_.slots(trial.id);
  if (held.size() != 1 || gangs_.has(trial.id)) return 0;
  return copies_.gain(trial, registry_.slots()[held[0].slot]);
}

// The slowest trials first, as far as there are idle slots. What each would
// gain is worked out once: there may be thousands of both.
void Coordinator::Impl::copy_stragglers() {
  if (deterministic_ || study_.recipe.command || stop_level_ > 0) return;
  const auto& slots = registry_.slots();
  std::vector<size_t> idle;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].state == SlotState::idle) idle.push_back(i);
  }
  if (idle.empty()) return;
  std::vector<std::pair<double, TrialId>> gains;
  for (const TrialId id : leased()) {
    const double gain = gain_of_copy(study_.trial(id));
    if (gain > 0) gains.emplace_back(gain, id);
  }
  std::stable_sort(
      gains.begin(), gains.end(),
      [](const auto& a, const auto& b) { return a.first > b.first; });
  for (size_t i = 0; i < std::min(idle.size(), gains.size()); ++i) {
    start_copy(study_.trial(gains[i].second), idle[i]);
  }
}

void Coordinator::Impl::start_copy(Trial& trial, size_t index) {
  const RegisteredSlot& original =
      registry_.slots()[leases_.first_slot(trial.id)];
  const RegisteredSlot& slot = registry_.slots()[index];
  const BackupCopy copy{index, leases_.next_attempt(trial.id)};
  copies_.add(trial.id, copy);
  const std::string why = fmt::format(
      "straggling: step {} takes {} so far on {} {}, {} was expected; a copy "
      "runs on {} {}",
      trial.steps() + 1,
      format_duration(registry_.clock().now() - *original.step_began),
      registry_.agent_of(original).node, original.number,
      format_duration(from_seconds(copies_.expected_step(trial))),
      registry_.agent_of(slot).node, slot.number);
  records_.change(trial, TrialState::running, Reason::straggling, why);
  records_.notice(fmt::format("trial {}: {}", trial.id, why));
  control::Assign assign =
      describe(trial, original.granted, LeasedSlot{index, 0});
  assign.attempt = copy.attempt;
  this->assign(index, std::move(assign));
}

// The copy was first: it is the trial now, and the straggler is cut.
void Coordinator::Impl::promote_copy(Trial& trial) {
  const BackupCopy copy = *copies_.take(trial.id);
  const RegisteredSlot& winner = registry_.slots()[copy.slot];
  const std::string why =
      fmt::format("superseded: the copy on {} {} was first",
                  registry_.agent_of(winner).node, winner.number);
  for (const LeasedSlot& held : leases_.slots(trial.id)) {
    registry_.release(held.slot, false, study_.recipe.limits.grace);
  }
  trial.attempt = copy.attempt;
  trial.node = registry_.agent_of(winner).node;
  trial.slot = winner.number;
  leases_.move_to(trial.id, copy.slot);
  records_.change(trial, TrialState::running, Reason::superseded, why);
  records_.notice(fmt::format("trial {}: {}", trial.id, why));
}

void Coordinator::Impl::drop_copy(const Trial& trial) {
  if (const auto copy = copies_.take(trial.id)) {
    registry_.release(copy->slot, false);
  }
}

}  // namespace dtune
