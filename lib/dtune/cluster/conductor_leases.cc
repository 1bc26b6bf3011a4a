// Who runs what: free slots are given to trials, leases that end are settled.
#include <algorithm>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/random.h"
#include "dtune/cluster/conductor.h"
#include "dtune/cluster/process.h"
#include "dtune/cluster/sidecar.h"

namespace dtune {
namespace {

// Points that make no recipe are replaced, up to this many in a row.
constexpr int kMaxInvalidInARow = 100;
constexpr Duration kTemporaryPause = std::chrono::seconds(2);

}  // namespace

void Conductor::fill() {
  if (phase_ == Phase::done || stop_level_ > 0 || records_.blocked()) return;
  if (clock_.now() < hold_until_) return;
  while (true) {
    const std::vector<size_t> slots = free_slots();
    if (slots.empty()) break;
    if (phase_ == Phase::search && given_up_) return;
    if (const auto id = next_retry()) {
      retry_.erase(*id);
      if (!lease(*id, slots, Reason::resumed)) return;
      continue;
    }
    if (phase_ != Phase::search || search_over_ || !changed_) break;
    if (!ask_scheduler(slots)) break;
  }
  fill_vacancies();
  copy_stragglers();
}

// False: there is nothing to start now.
bool Conductor::ask_scheduler(const std::vector<size_t>& slots) {
  const Records::Together together(records_);
  if (budget_.steps_left(outstanding_steps()) == 0) {
    changed_ = false;
    if (budget_.steps_spent()) {
      end_of_search(fmt::format("the budget of {} steps is spent",
                                study_.recipe.budget.steps));
    }
    return false;
  }
  const Directive directive = scheduler_.next(
      study_, sampler_, study_.decisions + 1, budget_.trials_left());
  switch (directive.kind) {
    case Directive::Kind::start:
      DTUNE_CHECK(budget_.trials_left());
      start_trial(directive, slots);
      return true;
    case Directive::Kind::resume: {
      Trial& trial = study_.trial(directive.trial);
      DTUNE_CHECK(!runs_[size_t(trial.id) - 1].leased() ||
                  trial.state != TrialState::running);
      trial.target_step = std::min(directive.target_step, study_.horizon);
      records_.decide(trial, DecisionMaker::next, "resume", directive.why);
      if (runs_[size_t(trial.id) - 1].leased()) {  // still leaving its slot
        records_.change(trial, TrialState::waiting, Reason::promoted,
                        directive.why);
        retry_.insert(trial.id);
        return true;
      }
      return lease(trial.id, slots, Reason::promoted);
    }
    case Directive::Kind::wait:
      changed_ = false;
      if (!any_lease() && retry_.empty()) {
        search_over_ = true;
        why_over_ = "the scheduler has nothing left to run";
      }
      return false;
    case Directive::Kind::finish:
      search_over_ = true;
      why_over_ = budget_.trials_left()
                      ? "the search space is exhausted: " + directive.why
                      : fmt::format("the budget of {} trials is spent",
                                    study_.recipe.budget.trials);
      return false;
  }
  return false;
}

void Conductor::start_trial(const Directive& directive,
                            const std::vector<size_t>& slots) {
  const TrialId id = static_cast<TrialId>(study_.trials.size()) + 1;
  Trial fresh;
  fresh.id = id;
  fresh.point = directive.point;
  fresh.unit = study_.recipe.space.encode(directive.point);
  fresh.seed = mix_seed({study_.recipe.seed, hash_text("trial"), uint64_t(id)});
  fresh.target_step = std::clamp(directive.target_step, 1, study_.horizon);
  fresh.created_ms = clock_.wall_ms();
  study_.trials.push_back(std::move(fresh));
  runs_.emplace_back();
  Trial& trial = study_.trial(id);
  try {
    if (options_.recipe_for) options_.recipe_for(trial.point);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::config) throw;
    last_invalid_ = e.what();
    records_.change(trial, TrialState::invalid, Reason::said_invalid, e.what());
    records_.decide(trial, DecisionMaker::next, "invalid", e.what());
    if (++invalid_in_a_row_ >= kMaxInvalidInARow) {
      end_of_search(fmt::format("the last {} points made no valid recipe: {}",
                                invalid_in_a_row_, last_invalid_));
    }
    return;
  }
  invalid_in_a_row_ = 0;
  budget_.trial_started();
  records_.change(trial, TrialState::waiting, Reason::proposed, directive.why);
  records_.decide(trial, DecisionMaker::next, "start", directive.why);
  lease(id, slots, Reason::assigned);
}

// False: the budget of steps has nothing left for it now; it waits.
bool Conductor::lease(TrialId id, std::vector<size_t> slots, Reason reason) {
  Trial& trial = study_.trial(id);
  TrialRun& run = runs_[size_t(id) - 1];
  const int target = grant(trial);
  if (target <= trial.steps() && trial.kind == TrialKind::search) {
    retry_.insert(id);
    changed_ = false;
    if (!any_lease()) {
      end_of_search(fmt::format("the budget of {} steps is spent",
                                study_.recipe.budget.steps));
    }
    return false;
  }
  if (slots.size() == 1) slots[0] = preferred_slot(trial, slots[0]);
  run.seats.clear();
  for (const size_t slot : slots) {
    run.seats.push_back({slot, static_cast<int>(run.seats.size())});
  }
  run.steps_at_lease = trial.steps();
  run.reported = 0;
  run.began = clock_.now();
  run.last_attempt = std::max(run.last_attempt, trial.attempt) + 1;
  trial.attempt = run.last_attempt;
  const FleetSlot& first = fleet_.slots()[slots[0]];
  trial.node = fleet_.agent_of(first).node;
  trial.slot = first.number;
  if (trial.started_ms == 0) trial.started_ms = clock_.wall_ms();
  records_.change(trial, TrialState::running, reason, "");
  open_gang(trial, run);
  for (const Seat& seat : run.seats) {
    assign(seat.slot, describe(trial, target, seat));
  }
  return true;
}

void Conductor::assign(size_t slot, wire::Assign message) {
  close_files();
  if (files_ != nullptr) files_->open(message);
  fleet_.assign(slot, std::move(message));
}

void Conductor::close_files() {
  if (files_ == nullptr) return;
  LeaseFiles::Leases held;
  for (const FleetSlot& slot : fleet_.slots()) {
    if (slot.state == SlotState::busy || slot.state == SlotState::releasing) {
      held.emplace(slot.trial, slot.attempt);
    }
  }
  files_->close_all_but(held);
}

wire::Assign Conductor::describe(const Trial& trial, int target,
                                 const Seat& seat) const {
  wire::Assign assign;
  assign.trial = trial.id;
  assign.attempt = trial.attempt;
  assign.kind = trial.kind;
  assign.point = trial.point;
  assign.seed = trial.seed;
  assign.horizon = study_.horizon;
  assign.target = target;
  assign.resume_step = trial.steps();
  assign.checkpoint = checkpoint_of(trial.id).string();
  const FleetAgent& agent = fleet_.agent_of(fleet_.slots()[seat.slot]);
  assign.threads = agent.threads;
  const TrialRun& run = runs_[size_t(trial.id) - 1];
  take_seat(trial, run, seat, assign);
  if (trial.kind == TrialKind::final) {
    assign.horizon = final_horizon();
    assign.model_file = options_.model_file.string();
    assign.finish = finals_.size() == 1 || trial.id == winner_;
    if (!run.gang.empty()) return assign;
    // It has the node to itself, but for the other final trainings.
    const int running = winner_ != 0 ? 1 : static_cast<int>(finals_.size());
    assign.threads =
        std::max(agent.threads, agent.threads * agent.slot_count /
                                    std::min(running, agent.slot_count));
  }
  return assign;
}

// Where its session may still be warm, if that slot is free.
size_t Conductor::preferred_slot(const Trial& trial, size_t otherwise) const {
  if (trial.attempt == 0) return otherwise;
  for (size_t i = 0; i < fleet_.slots().size(); ++i) {
    const FleetSlot& slot = fleet_.slots()[i];
    if (slot.state == SlotState::idle && slot.number == trial.slot &&
        fleet_.agent_of(slot).node == trial.node) {
      return i;
    }
  }
  return otherwise;
}

std::optional<TrialId> Conductor::next_retry() const {
  for (const TrialId id : retry_) {
    if (!runs_[size_t(id) - 1].leased()) return id;
  }
  return std::nullopt;
}

// The step up to which the trial may run now without asking again.
int Conductor::grant(const Trial& trial) const {
  if (trial.kind == TrialKind::final) return final_horizon();
  int target = trial.target_step;
  if (deterministic_) target = std::min(target, trial.steps() + 1);
  int64_t outstanding = outstanding_steps();
  const TrialRun& run = runs_[size_t(trial.id) - 1];
  if (run.leased()) {
    const FleetSlot& slot = fleet_.slots()[run.seats[0].slot];
    outstanding -= std::max(0, slot.granted - trial.steps());
  }
  const int64_t left = budget_.steps_left(outstanding);
  return static_cast<int>(std::min<int64_t>(
      target, left > INT32_MAX ? target : trial.steps() + left));
}

int64_t Conductor::outstanding_steps() const {
  if (study_.recipe.budget.steps == 0) return 0;
  int64_t steps = 0;
  for (const TrialId id : leased()) {
    const Trial& trial = study_.trial(id);
    if (trial.kind == TrialKind::final) continue;
    const FleetSlot& slot = fleet_.slots()[runs_[size_t(id) - 1].seats[0].slot];
    if (slot.state != SlotState::busy) continue;
    steps += std::max(0, slot.granted - trial.steps());
  }
  return steps;
}

void Conductor::on_lease_over(const LeaseOver& over) {
  Trial& trial = study_.trial(over.ended.trial);
  TrialRun& run = runs_[size_t(trial.id) - 1];
  const auto seat =
      std::find_if(run.seats.begin(), run.seats.end(),
                   [&over](const Seat& s) { return s.slot == over.slot; });
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
  const bool untested = over.ended.outcome == wire::Outcome::complete &&
                        over.ended.metrics.empty();
  if (untested) {
    wire::Ended lost = over.ended;
    lost.reason = Reason::killed;
    lost.detail = "the rank that was to test the model is gone";
    attempt_failed(trial, lost);
  } else if (over.ended.outcome == wire::Outcome::complete) {
    on_final_over(trial, over.ended);
  } else if (over.ended.outcome == wire::Outcome::failed) {
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
void Conductor::set_aside(Trial& trial, const wire::Ended& ended) {
  records_.change(
      trial, trial.curve.empty() ? TrialState::waiting : TrialState::paused,
      Reason::lease_lapsed, ended.detail);
  retry_.insert(trial.id);
  if (ended.outcome != wire::Outcome::temporary ||
      ended.reason == Reason::node_lost) {
    return;
  }
  hold_until_ = clock_.now() + kTemporaryPause;
  records_.notice(fmt::format("trial {}: {}; trying again in {}", trial.id,
                              ended.detail, format_duration(kTemporaryPause)));
}

void Conductor::attempt_failed(Trial& trial, const wire::Ended& ended) {
  TrialRun& run = runs_[size_t(trial.id) - 1];
  ++trial.failures;
  run.history.failures = trial.failures;
  const bool again = should_retry(ended.reason, ended.exit_code, run.history,
                                  study_.recipe.limits.retries);
  run.history.last_cause = ended.reason;
  run.history.last_exit_code = ended.exit_code;
  // A checkpoint that nobody gets a step out of may be what is wrong.
  if (run.reported == 0 && run.steps_at_lease > 0) {
    std::error_code ignored;
    std::filesystem::remove(checkpoint_of(trial.id), ignored);
  }
  if (again) {
    records_.change(trial, TrialState::lost, ended.reason, ended.detail);
    records_.notice(fmt::format("trial {}: {}; trying again from step {}",
                                trial.id, ended.detail, trial.steps()));
    retry_.insert(trial.id);
    return;
  }
  const TrialState state = retry_rule(ended.reason).final_state;
  std::string detail = ended.detail;
  if (trial.failures > 1) {
    detail = fmt::format("given up after {} attempts: {}", trial.failures,
                         ended.detail);
  }
  records_.change(trial, state, ended.reason, detail);
  if (state == TrialState::invalid && trial.kind == TrialKind::search) {
    budget_.trial_was_invalid();
    last_invalid_ = ended.detail;
    if (++invalid_in_a_row_ >= kMaxInvalidInARow) {
      end_of_search(
          fmt::format("the last {} trials called themselves invalid: {}",
                      invalid_in_a_row_, last_invalid_));
    }
  }
  if (trial.kind == TrialKind::final) on_final_over(trial, ended);
}

void Conductor::release(Trial& trial, bool keep) {
  TrialRun& run = runs_[size_t(trial.id) - 1];
  drop_copy(trial);
  if (!run.leased()) return;
  std::erase_if(run.seats, [&](const Seat& seat) {
    fleet_.release(seat.slot, keep);
    // The others are settled in on_lease_over.
    return fleet_.slots()[seat.slot].state == SlotState::idle;
  });
  if (run.leased()) return;
  lease_ended(run);
  drop_checkpoint(trial);
}

bool Conductor::any_lease() const {
  const auto& slots = fleet_.slots();
  return !pending_.empty() ||
         std::any_of(slots.begin(), slots.end(), [](const FleetSlot& s) {
           return s.state == SlotState::busy || s.state == SlotState::releasing;
         });
}

// The trials that hold slots, each once. O(slots), as all that is done for each
// report has to be.
std::vector<TrialId> Conductor::leased() const {
  std::vector<TrialId> trials;
  const auto& slots = fleet_.slots();
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].trial == 0) continue;
    const TrialRun& run = runs_[size_t(slots[i].trial) - 1];
    if (run.leased() && run.seats[0].slot == i)
      trials.push_back(slots[i].trial);
  }
  return trials;
}

// Of a trial that nobody will continue: only the incumbent may be.
void Conductor::drop_checkpoint(Trial& trial) {
  if (trial.checkpoint.empty() || !is_terminal(trial.state)) return;
  if (trial.id == best_ || trial.kind == TrialKind::final) return;
  if (runs_[size_t(trial.id) - 1].leased() || retry_.contains(trial.id)) return;
  std::error_code ignored;
  std::filesystem::remove(trial.checkpoint, ignored);
  std::filesystem::remove(sidecar_path(trial.checkpoint), ignored);
  trial.checkpoint.clear();
  trial.checkpoint_step = 0;
  records_.save(trial);
}

std::filesystem::path Conductor::checkpoint_of(TrialId id) const {
  return options_.checkpoints / fmt::format("trial-{}.checkpoint", id);
}

}  // namespace dtune
