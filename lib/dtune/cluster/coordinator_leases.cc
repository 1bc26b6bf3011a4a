// Leases: free slots are given to trials.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/cluster/coordinator_impl.h"
#include "dtune/cluster/new_trial.h"
#include "dtune/cluster/stop_rules.h"

namespace dtune {
namespace {

constexpr Duration kFillTurn = std::chrono::milliseconds(10);

}  // namespace

// Where thousands of slots are free at once, reports that come meanwhile wait
// neither for all of them nor for all that is recorded of them.
void Coordinator::Impl::fill() {
  unfilled_ = false;
  if (phase_ == Phase::done || stop_level_ > 0 || records_.blocked()) return;
  const MonoTime begin = clock_.now();
  if (disk_.holds(begin)) return;
  size_t from = 0;  // none is free before
  while (true) {
    if (!deterministic_ &&
        (clock_.now() - begin > kFillTurn || records_.behind())) {
      unfilled_ = true;
      return;
    }
    const std::vector<size_t> slots = free_slots(from);
    if (slots.empty()) {
      if (waits_in_vain()) ask_scheduler({});
      break;
    }
    if (!gangs_.enabled()) from = slots.front();
    if (phase_ == Phase::search && given_up_) return;
    if (const auto id = leases_.next_owed()) {
      leases_.settle(*id);
      if (!lease(*id, slots, Reason::resumed)) return;
      continue;
    }
    if (phase_ != Phase::search || search_over_ || !changed_) break;
    if (!ask_scheduler(slots)) break;
  }
  fill_vacancies();
  if (std::exchange(check_copies_, false)) copy_stragglers();
}

// Nothing new may be started, so slots for it need not be waited for: nodes
// that have left would keep a study from its end.
bool Coordinator::Impl::waits_in_vain() const {
  return gangs_.enabled() && phase_ == Phase::search && !search_over_ &&
         changed_ && !budget_.trials_left() && !any_lease() && !leases_.owes();
}

// False: there is nothing to start now. Without slots what is to be resumed
// waits for them.
bool Coordinator::Impl::ask_scheduler(const std::vector<size_t>& slots) {
  const Records::Together together(records_);
  if (budget_.steps_left(outstanding_steps()) == 0) {
    changed_ = false;
    if (budget_.steps_spent()) {
      end_of_search(fmt::format("the budget of {} steps is spent",
                                study_.recipe.budget.steps));
    }
    return false;
  }
  if (end_on_plateau()) return false;
  free_checkpoints();
  const Directive directive = scheduler_.next(
      study_, sampler_, study_.decisions + 1, budget_.trials_left());
  switch (directive.kind) {
    case Directive::Kind::start:
      DTUNE_CHECK(budget_.trials_left());
      start_trial(directive, slots);
      return true;
    case Directive::Kind::resume: {
      Trial& trial = study_.trial(directive.trial);
      DTUNE_CHECK(!leases_.leased(trial.id) ||
                  trial.state != TrialState::running);
      trial.target_step = std::min(directive.target_step, study_.horizon);
      records_.decide(trial, DecisionMaker::next, "resume", directive.why);
      const bool leaving = leases_.leased(trial.id);
      if (leaving || slots.empty()) {
        records_.change(trial, TrialState::waiting, Reason::promoted,
                        directive.why);
        leases_.owe(trial.id);
        return true;
      }
      return lease(trial.id, slots, Reason::promoted);
    }
    case Directive::Kind::wait:
      changed_ = false;
      if (!any_lease() && !leases_.owes()) {
        search_over_ = true;
        why_over_ = "the scheduler has nothing left to run";
      }
      return false;
    case Directive::Kind::finish:
      search_over_ = true;
      why_over_ = budget_.trials_left()
                      ? "the search space is exhausted: " + directive.why
                      : budget_.why_no_trials();
      return false;
  }
  return false;
}

// `stop.gain`.
bool Coordinator::Impl::end_on_plateau() {
  const std::string why = on_plateau(study_, scheduler_);
  if (why.empty()) return false;
  end_of_search(why);
  pause_all(Reason::budget, why);
  return true;
}

// Paused trials that became hopeless are given up, and where the checkpoints
// take more than resources.disk, the least promising ones too.
void Coordinator::Impl::free_checkpoints() {
  constexpr int64_t kInterval = 16;  // decisions: it costs as much as one
  if (study_.decisions % kInterval == 0) {
    if (const auto one = scheduler_.dismiss(study_, false)) dismiss(*one);
  }
  const int64_t cap = study_.recipe.resources.disk_mb;
  if (cap == 0) return;
  while (best_.checkpoints().bytes() > cap * 1024 * 1024) {
    if (const TrialId last = best_.give_up_last()) {
      drop_checkpoint(study_.trial(last));
      continue;
    }
    auto one = scheduler_.dismiss(study_, true);
    if (!one) one = worst_paused();
    if (!one) return;
    one->why += fmt::format(
        "; checkpoints take more than {} MiB "
        "(resources.disk)",
        cap);
    dismiss(*one);
  }
}

void Coordinator::Impl::dismiss(const Dismissal& dismissal) {
  Trial& trial = study_.trial(dismissal.trial);
  if (leases_.leased(trial.id) || leases_.is_owed(trial.id)) return;
  stop_trial(trial, DecisionMaker::coordinator, "cut", TrialState::cut,
             dismissal.reason, dismissal.why);
  drop_checkpoint(trial);
}

// Where the scheduler does not compare paused trials.
std::optional<Dismissal> Coordinator::Impl::worst_paused() const {
  const Trial* worst = nullptr;
  for (const Trial& trial : study_.trials) {
    const bool free = trial.state == TrialState::paused &&
                      trial.kind == TrialKind::search &&
                      trial.id != best_.id() && !trial.checkpoint.empty() &&
                      !leases_.leased(trial.id) && !leases_.is_owed(trial.id);
    if (!free) continue;
    const auto value = best_value(objective_, trial).value_or(-HUGE_VAL);
    if (worst == nullptr ||
        value < best_value(objective_, *worst).value_or(-HUGE_VAL)) {
      worst = &trial;
    }
  }
  if (worst == nullptr) return std::nullopt;
  return Dismissal{
      worst->id, Reason::hopeless,
      fmt::format("has the worst {} of all paused trials", objective_.metric)};
}

void Coordinator::Impl::start_trial(const Directive& directive,
                                    const std::vector<size_t>& slots) {
  const TrialId id = add_trial(study_, directive, clock_.wall_ms()).id;
  leases_.add_up_to(study_.trials.size());
  Trial& trial = study_.trial(id);
  try {
    if (options_.recipe_for) options_.recipe_for(trial.point);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::config) throw;
    records_.change(trial, TrialState::invalid, Reason::said_invalid, e.what());
    records_.decide(trial, DecisionMaker::next, "invalid", e.what());
    count_fruitless("points made no valid recipe", e.what());
    return;
  }
  budget_.trial_started();
  records_.change(trial, TrialState::waiting, Reason::proposed, directive.why);
  records_.decide(trial, DecisionMaker::next, "start", directive.why);
  lease(id, slots, Reason::assigned);
}

// False: the budget of steps has nothing left for it now; it waits.
bool Coordinator::Impl::lease(TrialId id, std::vector<size_t> slots,
                              Reason reason) {
  Trial& trial = study_.trial(id);
  const int target = grant(trial);
  if (target <= trial.steps() && trial.kind == TrialKind::search) {
    leases_.owe(id);
    changed_ = false;
    if (!any_lease()) {
      end_of_search(fmt::format("the budget of {} steps is spent",
                                study_.recipe.budget.steps));
    }
    return false;
  }
  if (slots.size() == 1) slots[0] = preferred_slot(trial, slots[0]);
  trial.attempt =
      leases_.begin(id, slots, trial.attempt, trial.steps(), clock_.now());
  const RegisteredSlot& first = registry_.slots()[slots[0]];
  trial.node = registry_.agent_of(first).node;
  trial.slot = first.number;
  if (trial.started_ms == 0) trial.started_ms = clock_.wall_ms();
  records_.change(trial, TrialState::running, reason, "");
  open_gang(trial);
  for (const LeasedSlot& held : leases_.slots(id)) {
    assign(held.slot, describe(trial, target, held));
  }
  return true;
}

void Coordinator::Impl::assign(size_t slot, control::Assign message) {
  close_files();
  const RegisteredSlot& to = registry_.slots()[slot];
  if (files_ != nullptr) files_->open(message, to.public_key);
  gangs_.admit(message, registry_.agent_of(to).remote ? to.public_key : "");
  registry_.assign(slot, std::move(message));
}

void Coordinator::Impl::close_files() {
  if (files_ == nullptr) return;
  LeaseFiles::Leases held;
  for (const RegisteredSlot& slot : registry_.slots()) {
    if (slot.state == SlotState::busy || slot.state == SlotState::releasing) {
      held.emplace(slot.trial, slot.attempt);
    }
  }
  files_->close_all_but(held);
}

control::Assign Coordinator::Impl::describe(const Trial& trial, int target,
                                            const LeasedSlot& held) const {
  control::Assign assign;
  assign.trial = trial.id;
  assign.attempt = trial.attempt;
  assign.kind = trial.kind;
  assign.point = trial.point;
  assign.seed = trial.seed;
  assign.horizon = study_.horizon;
  assign.target = target;
  assign.resume_step = final_.resume_step(trial);
  assign.checkpoint = final_.checkpoint(trial).string();
  const RegisteredAgent& agent =
      registry_.agent_of(registry_.slots()[held.slot]);
  assign.threads = agent.threads;
  gangs_.describe(trial.id, held.member, agent.remote, assign);
  if (trial.kind == TrialKind::final) {
    final_.describe(trial, assign);
    if (gangs_.has(trial.id)) return assign;
    // It has the node to itself, but for the other final trainings.
    assign.threads = std::max(agent.threads,
                              agent.threads * agent.slot_count /
                                  std::min(final_.running(), agent.slot_count));
  }
  return assign;
}

// Where its session may still be warm, if that slot is free.
size_t Coordinator::Impl::preferred_slot(const Trial& trial,
                                         size_t otherwise) const {
  if (trial.attempt == 0) return otherwise;
  // What has failed there is tried elsewhere, if there is a place.
  const bool failed = trial.state == TrialState::lost;
  for (size_t i = 0; i < registry_.slots().size(); ++i) {
    const RegisteredSlot& slot = registry_.slots()[i];
    const bool same_node = registry_.agent_of(slot).node == trial.node;
    const bool same_slot = same_node && slot.number == trial.slot;
    const bool fits = failed ? !same_node : same_slot;
    if (slot.state == SlotState::idle && fits && !rests(slot)) return i;
  }
  return otherwise;
}

// The step up to which the trial may run now without asking again.
int Coordinator::Impl::grant(const Trial& trial) const {
  if (trial.kind == TrialKind::final) return final_.target(trial);
  int target = trial.target_step;
  if (deterministic_) target = std::min(target, trial.steps() + 1);
  if (trial.kind == TrialKind::repeat) return target;
  int64_t outstanding = outstanding_steps();
  if (leases_.leased(trial.id)) {
    const RegisteredSlot& slot =
        registry_.slots()[leases_.first_slot(trial.id)];
    outstanding -= std::max(0, slot.granted - trial.steps());
  }
  const int64_t left = budget_.steps_left(outstanding);
  return static_cast<int>(std::min<int64_t>(
      target, left > INT32_MAX ? target : trial.steps() + left));
}

int64_t Coordinator::Impl::outstanding_steps() const {
  if (study_.recipe.budget.steps == 0) return 0;
  int64_t steps = 0;
  for (const TrialId id : leased()) {
    const Trial& trial = study_.trial(id);
    if (trial.kind != TrialKind::search) continue;
    const RegisteredSlot& slot = registry_.slots()[leases_.first_slot(id)];
    if (slot.state != SlotState::busy) continue;
    steps += std::max(0, slot.granted - trial.steps());
  }
  return steps;
}

bool Coordinator::Impl::any_lease() const {
  const auto& slots = registry_.slots();
  return !barrier_.empty() ||
         std::any_of(slots.begin(), slots.end(), [](const RegisteredSlot& s) {
           return s.state == SlotState::busy || s.state == SlotState::releasing;
         });
}

// The trials that hold slots, each once. O(slots), as all that is done for each
// report has to be.
std::vector<TrialId> Coordinator::Impl::leased() const {
  std::vector<TrialId> trials;
  const auto& slots = registry_.slots();
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].trial == 0) continue;
    const TrialId id = slots[i].trial;
    if (leases_.leased(id) && leases_.first_slot(id) == i) trials.push_back(id);
  }
  return trials;
}

}  // namespace dtune
