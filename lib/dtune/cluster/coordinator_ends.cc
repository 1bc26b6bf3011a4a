// Leases that end: what becomes of their trials.
#include <algorithm>

#include <fmt/format.h>

#include "dtune/cluster/child_process.h"
#include "dtune/cluster/coordinator_impl.h"

namespace dtune {
void Coordinator::Impl::on_lease_over(const LeaseOver& over) {
  Trial& trial = study_.trial(over.ended.trial);
  if (copies_.is(trial.id, over.ended.attempt)) copies_.take(trial.id);
  // A lease that was released at its target is settled already.
  if (over.ended.attempt != trial.attempt) return;
  const auto member = leases_.leave(trial.id, over.slot);
  if (!member) return;
  const Records::Together together(records_);
  // Its agent cannot end what its commands have started any more.
  if (over.ended.reason == Reason::node_lost) kill_orphans(study_.id);
  if (copies_.has(trial.id) && trial.state == TrialState::running) {
    promote_copy(trial);
    return;
  }
  if (gangs_.goes_on_without(trial, leases_.slots(trial.id), *member,
                             over.ended)) {
    member_left(trial, *member, over);
    return;
  }
  settle(trial, over);
  if (!leases_.leased(trial.id)) lease_ended(trial.id);
  drop_checkpoint(trial);
}

// The lease is over as a whole: the other ranks of a gang leave it too.
void Coordinator::Impl::settle(Trial& trial, const LeaseOver& over) {
  if (trial.state != TrialState::running) return;
  const bool untested = over.ended.outcome == control::Outcome::complete &&
                        over.ended.metrics.empty();
  if (untested) {
    control::Ended lost = over.ended;
    lost.reason = Reason::killed;
    lost.detail = "the rank that was to test the model is gone";
    attempt_failed(trial, lost);
  } else if (over.ended.outcome == control::Outcome::complete) {
    on_final_over(trial, over.ended);
  } else if ((over.ended.reason != Reason::node_lost ||
              !attempts_.node_lost(trial.id)) &&
             over.ended.outcome == control::Outcome::failed) {
    attempt_failed(trial, over.ended);
  } else {
    set_aside(trial, over.ended);
  }
  release(trial, false);
}

void Coordinator::Impl::lease_ended(TrialId id) {
  leases_.end(id, clock_.now());
  gangs_.end(id);
}

// Not counted as a failure: it goes on as soon as it can.
void Coordinator::Impl::set_aside(Trial& trial, const control::Ended& ended) {
  records_.change(
      trial, trial.curve.empty() ? TrialState::waiting : TrialState::paused,
      ended.reason == Reason::node_lost ? Reason::node_lost
                                        : Reason::lease_lapsed,
      ended.detail);
  leases_.owe(trial.id);
  if (ended.outcome != control::Outcome::temporary ||
      ended.reason == Reason::node_lost) {
    return;
  }
  on_full_disk(fmt::format("trial {}: {}", trial.id, ended.detail));
}

// A checkpoint from which no step succeeds may be what is wrong. Not at the
// first failure of a trial that was ended from outside, e.g. with a server of
// its gang: it would lose all its steps.
bool Coordinator::Impl::doubts_checkpoint(const Trial& trial,
                                          Reason reason) const {
  if (leases_.reported(trial.id) > 0 || leases_.steps_before(trial.id) == 0) {
    return false;
  }
  const bool from_outside =
      reason == Reason::killed || reason == Reason::lease_lapsed;
  return !from_outside || trial.failures > 1;
}

void Coordinator::Impl::attempt_failed(Trial& trial,
                                       const control::Ended& ended) {
  ++trial.failures;
  note_failure_of(trial.node);
  const bool again = attempts_.failed(trial, ended.reason, ended.exit_code);
  const bool doubted = doubts_checkpoint(trial, ended.reason);
  if (doubted) {
    std::error_code ignored;
    std::filesystem::remove(final_.checkpoint(trial), ignored);
  }
  if (again) {
    records_.change(trial, TrialState::lost, ended.reason, ended.detail);
    records_.notice(
        fmt::format("trial {}: {}; trying again {}", trial.id, ended.detail,
                    doubted ? "without its checkpoint"
                            : fmt::format("from step {}", trial.steps())));
    leases_.owe(trial.id);
    best_.reconsider(trial);
    return;
  }
  const TrialState state = retry_rule(ended.reason).final_state;
  std::string detail = ended.detail;
  if (trial.failures > 1) {
    detail = fmt::format("given up after {} attempts: {}", trial.failures,
                         ended.detail);
  }
  records_.change(trial, state, ended.reason, detail);
  if (trial.kind == TrialKind::final) {
    on_final_over(trial, ended);
    return;
  }
  best_.reconsider(trial);
  if (state == TrialState::invalid) {
    budget_.trial_was_invalid();
    count_fruitless("trials were reported as invalid", ended.detail);
  } else if (trial.curve.empty()) {
    count_fruitless("trials failed before their first step", ended.detail);
  }
}

void Coordinator::Impl::note_failure_of(const std::string& node) {
  const auto rest = nodes_.failed(node, clock_.now());
  if (!rest || registry_.present_agents() < 2) return;
  records_.notice(
      fmt::format("node {}: repeated failures; it gets no trials for {} while "
                  "other nodes work",
                  node, format_duration(*rest)));
}

// Where nothing else limits the search, what makes every trial fail ends it.
void Coordinator::Impl::count_fruitless(const std::string& what,
                                        const std::string& why) {
  if (!attempts_.came_to_nothing()) return;
  end_of_search(fmt::format("the last {} {}{}{}", attempts_.fruitless(), what,
                            why.empty() ? "" : ": ", why));
}

void Coordinator::Impl::release(Trial& trial, bool keep) {
  drop_copy(trial);
  if (!leases_.leased(trial.id)) return;
  leases_.leave_where(trial.id, [&](const LeasedSlot& held) {
    const RegisteredSlot& slot = registry_.slots()[held.slot];
    const bool waits = slot.state == SlotState::busy && slot.at_target;
    registry_.release(held.slot, keep);
    // The others are settled in on_lease_over.
    return waits || slot.state == SlotState::idle;
  });
  if (leases_.leased(trial.id)) return;
  lease_ended(trial.id);
  drop_checkpoint(trial);
}

// Of a trial that will not be continued: only a contender may be.
void Coordinator::Impl::drop_checkpoint(Trial& trial) {
  if (trial.checkpoint.empty() || !is_terminal(trial.state)) return;
  if (best_.is_contender(trial.id) || trial.kind == TrialKind::final) return;
  if (leases_.leased(trial.id) || leases_.is_owed(trial.id)) return;
  best_.checkpoints().remove(trial.id);
  trial.checkpoint.clear();
  trial.checkpoint_step = 0;
  records_.save(trial);
}

}  // namespace dtune
