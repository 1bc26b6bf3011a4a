// Leases that end: what becomes of their trials.
#include <algorithm>

#include <fmt/format.h>

#include "dtune/cluster/child_process.h"
#include "dtune/cluster/conductor.h"

namespace dtune {
void Conductor::on_lease_over(const LeaseOver& over) {
  Trial& trial = study_.trial(over.ended.trial);
  TrialRun& run = runs_[size_t(trial.id) - 1];
  const auto seat =
      std::find_if(run.seats.begin(), run.seats.end(),
                   [&over](const Seat& s) { return s.slot == over.slot; });
  if (is_copy(trial, over.ended.attempt)) run.copy.reset();
  // A lease that was released at its target is settled already.
  if (over.ended.attempt != trial.attempt || seat == run.seats.end()) return;
  const Records::Together together(records_);
  const int member = seat->member;
  run.seats.erase(seat);
  // Its agent cannot end what its commands have started any more.
  if (over.ended.reason == Reason::node_lost) kill_orphans(study_.id);
  if (run.copy && trial.state == TrialState::running) {
    promote_copy(trial);
    return;
  }
  if (goes_on_without(trial, run, member, over.ended)) {
    seat_left(trial, member, over);
    return;
  }
  settle(trial, over);
  if (!run.leased()) lease_ended(run);
  drop_checkpoint(trial);
}

// The lease is over as a whole: the other ranks of a gang leave it too.
void Conductor::settle(Trial& trial, const LeaseOver& over) {
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
  } else if (over.ended.outcome == control::Outcome::failed) {
    attempt_failed(trial, over.ended);
  } else {
    set_aside(trial, over.ended);
  }
  release(trial, false);
}

void Conductor::lease_ended(TrialRun& run) {
  if (run.began != MonoTime{}) {
    run.seconds += to_seconds(clock_.now() - run.began);
  }
  run.began = {};
  close_gang(run);
}

// Nobody's failure: it goes on as soon as it can.
void Conductor::set_aside(Trial& trial, const control::Ended& ended) {
  records_.change(
      trial, trial.curve.empty() ? TrialState::waiting : TrialState::paused,
      ended.reason == Reason::node_lost ? Reason::node_lost
                                        : Reason::lease_lapsed,
      ended.detail);
  retry_.insert(trial.id);
  if (ended.outcome != control::Outcome::temporary ||
      ended.reason == Reason::node_lost) {
    return;
  }
  on_full_disk(fmt::format("trial {}: {}", trial.id, ended.detail));
}

void Conductor::attempt_failed(Trial& trial, const control::Ended& ended) {
  TrialRun& run = runs_[size_t(trial.id) - 1];
  ++trial.failures;
  run.history.failures = trial.failures;
  run.history.reported = !trial.curve.empty();
  const bool again = should_retry(ended.reason, ended.exit_code, run.history,
                                  study_.recipe.limits.retries);
  run.history.last_cause = ended.reason;
  run.history.last_exit_code = ended.exit_code;
  // A checkpoint that nobody gets a step out of may be what is wrong.
  if (run.reported == 0 && run.steps_at_lease > 0) {
    std::error_code ignored;
    std::filesystem::remove(checkpoint_of(trial), ignored);
  }
  if (again) {
    records_.change(trial, TrialState::lost, ended.reason, ended.detail);
    records_.notice(fmt::format("trial {}: {}; trying again from step {}",
                                trial.id, ended.detail, trial.steps()));
    retry_.insert(trial.id);
    if (trial.id == best_) find_best();
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
  if (trial.id == best_) find_best();
  if (state == TrialState::invalid) {
    budget_.trial_was_invalid();
    count_fruitless("trials called themselves invalid", ended.detail);
  } else if (trial.curve.empty()) {
    count_fruitless("trials failed before their first step", ended.detail);
  }
}

// Where nothing else limits the search, what makes every trial fail ends it.
void Conductor::count_fruitless(const std::string& what,
                                const std::string& why) {
  if (++fruitless_in_a_row_ < kMaxFruitlessInARow) return;
  end_of_search(fmt::format("the last {} {}{}{}", fruitless_in_a_row_, what,
                            why.empty() ? "" : ": ", why));
}

void Conductor::release(Trial& trial, bool keep) {
  TrialRun& run = runs_[size_t(trial.id) - 1];
  drop_copy(trial);
  if (!run.leased()) return;
  std::erase_if(run.seats, [&](const Seat& seat) {
    const FleetSlot& slot = fleet_.slots()[seat.slot];
    const bool waits = slot.state == SlotState::busy && slot.at_target;
    fleet_.release(seat.slot, keep);
    // The others are settled in on_lease_over.
    return waits || slot.state == SlotState::idle;
  });
  if (run.leased()) return;
  lease_ended(run);
  drop_checkpoint(trial);
}

// Of a trial that nobody will continue: only the incumbent may be.
void Conductor::drop_checkpoint(Trial& trial) {
  if (trial.checkpoint.empty() || !is_terminal(trial.state)) return;
  if (trial.id == best_ || trial.kind == TrialKind::final) return;
  if (runs_[size_t(trial.id) - 1].leased() || retry_.contains(trial.id)) return;
  checkpoints_.remove(trial.id);
  trial.checkpoint.clear();
  trial.checkpoint_step = 0;
  records_.save(trial);
}

}  // namespace dtune
