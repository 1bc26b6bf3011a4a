// What a report leads to.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "dtune/cluster/coordinator_impl.h"
#include "dtune/cluster/stop_rules.h"

namespace dtune {

void Coordinator::Impl::on_step(const StepDone& step) {
  Trial& trial = study_.trial(step.report.trial);
  const bool by_copy = copies_.is(trial.id, step.report.attempt);
  if (!by_copy && step.report.attempt != trial.attempt) {
    // The other lease won in this very turn: the worker need not say it again.
    acknowledge(step);
    return;
  }
  // A report and what it leads to are known together, or not at all.
  const Records::Together together(records_);
  if (by_copy) {
    promote_copy(trial);
  } else {
    drop_copy(trial);
  }
  if (disk_.is_full() && !records_.blocked()) {
    records_.set_disk_full(false);
    if (disk_.written(clock_.now())) {
      records_.alert("there is room on the disk again; going on");
    }
  }
  if (!record(trial, step)) return;
  // Its stop was sent while this was on its way: kept, but decided upon.
  if (trial.state != TrialState::running) {
    records_.save(trial);
    return;
  }
  if (trial.kind == TrialKind::final) {
    on_final_step(trial);
    return;
  }
  decide_upon(trial);
  end_at_target(trial);
}

// What is not recorded, or is already.
void Coordinator::Impl::acknowledge(const StepDone& done) {
  const control::Report& said = done.report;
  registry_.acknowledge({0, said.trial, said.attempt, said.report.step},
                        done.slot);
}

// `stop.target`. Trials that are being trained are paused.
void Coordinator::Impl::end_at_target(const Trial& trial) {
  if (!study_.recipe.stop.target || phase_ != Phase::search || search_over_ ||
      best_.id() != trial.id) {
    return;
  }
  const std::string why = reached_target(study_);
  if (why.empty()) return;
  end_of_search(why);
  pause_all(Reason::budget, why);
}

// What the last report of a trial that runs leads to.
void Coordinator::Impl::decide_upon(Trial& trial) {
  const StepReport& report = trial.curve.back();
  if (lacks_metric(trial, report)) return;
  const int horizon = study_.horizon;
  if (report.last || report.step >= horizon) {
    stop_trial(trial, DecisionMaker::coordinator, "complete",
               TrialState::complete, Reason::horizon,
               report.step >= horizon ? "reached the horizon"
                                      : "the program has ended");
    return;
  }
  if (trial.kind == TrialKind::repeat) {
    go_on(trial, {}, false);
    return;
  }
  judge(trial, report.step >= trial.target_step);
}

// Adds the report to the curve; true where it is new, i.e. to be decided upon.
bool Coordinator::Impl::record(Trial& trial, const StepDone& done) {
  StepReport report = done.report.report;
  // A program that goes on until its stop comes; no study has such a step.
  if (trial.kind == TrialKind::search && trial.steps() >= study_.horizon &&
      report.step > study_.horizon) {
    acknowledge(done);
    return false;
  }
  if (report.step > trial.steps() + 1) {
    registry_.kill(done.slot, Reason::bad_output,
                   fmt::format("reported step {} after step {}", report.step,
                               trial.steps()));
    return false;
  }
  // Every rank of a gang says the same; the first is enough, and is kept by its
  // own rank until it is committed.
  if (gangs_.has(trial.id) && report.step <= leases_.reported(trial.id)) {
    // Where no disk is shared, it is the leader's that comes with a checkpoint.
    if (report.step == leases_.reported(trial.id) &&
        note_checkpoint(trial, done.report)) {
      keep_best_step(trial, report.step);
      records_.save(trial);
    }
    acknowledge(done);
    return false;
  }
  // What is said again under the same lease keeps its place.
  report.sequence = report.step <= leases_.reported(trial.id)
                        ? trial.curve[size_t(report.step) - 1].sequence
                        : records_.next_sequence();
  nodes_.worked(registry_.agent_of(registry_.slots()[done.slot]).node);
  leases_.note_report(trial.id, report.step);
  note_checkpoint(trial, done.report);
  const bool fresh = report.step > trial.steps();
  if (fresh) {
    trial.curve.push_back(report);
    if (trial.kind == TrialKind::search) budget_.step_done();
  } else {  // trained again: its checkpoint was behind
    trial.curve[size_t(report.step) - 1] = report;
  }
  note_value(trial, report);
  if (done.report.checkpointed) keep_best_step(trial, report.step);
  const control::Ack ack{0, trial.id, done.report.attempt, report.step};
  records_.report(trial, report, {done.slot, ack});
  // A program that ends is noticed after its last step was reported.
  return fresh || (report.last && report.step == trial.steps());
}

// True where it has not been reported before.
bool Coordinator::Impl::note_checkpoint(Trial& trial,
                                        const control::Report& said) {
  // Where the step that is shipped had to be trained again, the file is its
  // own.
  if (!said.checkpointed || trial.id == final_.chosen()) return false;
  const std::string path = best_.checkpoints().of(trial.id).string();
  const bool news =
      trial.checkpoint != path || trial.checkpoint_step != said.report.step;
  trial.checkpoint = path;
  trial.checkpoint_step = said.report.step;
  return news;
}

void Coordinator::Impl::note_value(const Trial& trial,
                                   const StepReport& report) {
  if (trial.kind != TrialKind::search) return;
  if (objective_value(objective_, report)) attempts_.bore_fruit();
  const TrialId before = best_.note(trial, report);
  if (before != 0) drop_checkpoint(study_.trial(before));
}

void Coordinator::Impl::keep_best_step(const Trial& trial, int step) {
  if (trial.id != final_.chosen()) best_.keep_step(trial, step);
}

// NaN is data and ends the trial; a metric that is not there is its mistake.
bool Coordinator::Impl::lacks_metric(Trial& trial, const StepReport& report) {
  if (finite_metric(report, objective_.metric)) return false;
  const auto found = report.metrics.find(objective_.metric);
  ++trial.failures;
  if (!best_value(objective_, trial)) {
    count_fruitless("trials reported no finite " + objective_.metric, "");
  }
  if (found != report.metrics.end()) {
    stop_trial(trial, DecisionMaker::coordinator, "cut", TrialState::failed,
               Reason::diverged,
               fmt::format("{} is {} at step {}", objective_.metric,
                           found->second, report.step));
    return true;
  }
  std::string names;
  for (const auto& [name, value] : report.metrics) {
    names += names.empty() ? name : ", " + name;
  }
  stop_trial(trial, DecisionMaker::coordinator, "cut", TrialState::failed,
             Reason::bad_output,
             fmt::format("step {} reports {} but not {} (objective.metric)",
                         report.step, names.empty() ? "nothing" : names,
                         objective_.metric));
  return true;
}

void Coordinator::Impl::judge(Trial& trial, bool reached) {
  const Verdict verdict = scheduler_.judge(study_, trial, reached);
  switch (verdict.kind) {
    case Verdict::Kind::cut:
      stop_trial(trial, DecisionMaker::judge, "cut", TrialState::cut,
                 verdict.reason, verdict.why);
      return;
    case Verdict::Kind::pause:
      stop_trial(
          trial, DecisionMaker::judge, "pause", TrialState::paused,
          verdict.reason == Reason::none ? Reason::scheduled : verdict.reason,
          verdict.why);
      return;
    case Verdict::Kind::go_on:
      go_on(trial, verdict, reached);
  }
}

void Coordinator::Impl::go_on(Trial& trial, const Verdict& verdict,
                              bool reached) {
  const int wanted = std::min(verdict.target_step, study_.horizon);
  if (wanted > trial.target_step) {
    trial.target_step = wanted;
    records_.decide(trial, DecisionMaker::judge, "extend", verdict.why);
    records_.save(trial);
  } else if (reached) {  // nowhere to go: its scheduler may resume it
    stop_trial(trial, DecisionMaker::judge, "pause", TrialState::paused,
               Reason::scheduled, verdict.why);
    return;
  }
  if (!leases_.leased(trial.id) || leave_in_time(trial)) return;
  const int target = grant(trial);
  const int granted = registry_.slots()[leases_.first_slot(trial.id)].granted;
  if (target > granted) {
    for (const LeasedSlot& held : leases_.slots(trial.id))
      registry_.extend(held.slot, target);
  } else if (trial.steps() >= granted) {
    // Only the budget of steps can have left it there. It keeps its target, so
    // a larger budget takes it up again.
    records_.decide(trial, DecisionMaker::coordinator, "pause",
                    "the budget of steps is spent");
    records_.change(trial, TrialState::paused, Reason::budget,
                    "the budget of steps is spent");
    release(trial, true);
  }
}

// The trial leaves its slot by decision.
void Coordinator::Impl::stop_trial(Trial& trial, DecisionMaker maker,
                                   const char* action, TrialState state,
                                   Reason reason, const std::string& why) {
  const Records::Together together(records_);
  // Where it was going is no longer of interest to a resumed study.
  trial.target_step = trial.steps();
  records_.decide(trial, maker, action, why);
  records_.change(trial, state, reason, why);
  if (!has_results(study_, trial)) best_.reconsider(trial);
  release(trial, state == TrialState::paused);
}

}  // namespace dtune
