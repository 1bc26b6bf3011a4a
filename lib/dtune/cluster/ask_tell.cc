#include "dtune/cluster/ask_tell.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dtune/base/error.h"
#include "dtune/base/suggest.h"
#include "dtune/cluster/new_trial.h"
#include "dtune/cluster/stop_rules.h"
#include "dtune/cluster/winner.h"
#include "dtune/study/belief.h"

namespace dtune {
namespace {

bool of_search(const Trial& trial) { return trial.kind == TrialKind::search; }

constexpr size_t kMostNamed = 5;

// "waits for a report of trials 1, 2 (dtune tell): the budget of 2 trials is
// spent".
std::string why_waiting(const Study& study, const std::string& why) {
  std::vector<TrialId> running;
  for (const Trial& trial : study.trials) {
    if (trial.state == TrialState::running) running.push_back(trial.id);
  }
  const size_t named = std::min(running.size(), kMostNamed);
  return fmt::format(
      "waits for a report of trial{} {}{} (dtune tell): {}",
      running.size() == 1 ? "" : "s",
      fmt::join(running.begin(), running.begin() + long(named), ", "),
      named < running.size() ? ", ..." : "", why);
}

}  // namespace

AskTell::AskTell(Study& study, TrialStore& store, Sampler& sampler,
                 Scheduler& scheduler, ProgressSink& sink, const Clock& clock)
    : study_(study),
      sampler_(sampler),
      scheduler_(scheduler),
      clock_(clock),
      records_(study, store, sink, clock),
      budget_(study.recipe.budget, study) {
  study_.reports = std::max(study_.reports, last_sequence(study_.trials));
  records_.set_belief([this](const Trial& trial, int step) {
    return belief_of(scheduler_, sampler_, study_, trial, step);
  });
  begin();
}

// All questions and answers are one session: nothing differs between them.
void AskTell::begin() {
  if (study_.sessions == 0) records_.begin_session();
  if (study_.state == StudyState::finished) return;
  // The machine's clock may have been set back.
  study_.searched_seconds =
      std::max(study_.searched_seconds,
               double(clock_.wall_ms() - study_.created_ms) / 1000.0);
  study_.state = StudyState::running;
}

AskAnswer AskTell::ask() {
  const Records::Together together(records_);
  end_overdue();
  const std::string over = why_over();
  if (!over.empty()) return finish(over);
  if (const Trial* trial = owed()) {
    return give(study_.trial(trial->id), Reason::resumed, "to be run again");
  }
  if (budget_.steps_spent()) {
    return finish(fmt::format("the budget of {} steps is spent",
                              study_.recipe.budget.steps));
  }
  const Directive directive = scheduler_.next(
      study_, sampler_, study_.decisions + 1, budget_.trials_left());
  switch (directive.kind) {
    case Directive::Kind::start:
      return start(directive);
    case Directive::Kind::resume:
      return resume(directive);
    case Directive::Kind::wait:
      if (any_running()) return wait(directive.why);
      [[fallthrough]];
    case Directive::Kind::finish:
      return finish(budget_.trials_left() ? directive.why
                                          : budget_.why_no_trials());
  }
  return {};
}

// By a rule of the recipe; "": it goes on.
std::string AskTell::why_over() const {
  if (study_.state == StudyState::finished) return "the study is finished";
  std::string target = reached_target(study_);
  if (!target.empty()) return target;
  if (budget_.time_spent(study_.searched_seconds)) {
    return fmt::format("the time budget of {} is spent",
                       format_duration(study_.recipe.budget.time));
  }
  return on_plateau(study_, scheduler_);
}

void AskTell::end_overdue() {
  const double cap = to_seconds(study_.recipe.limits.trial_time);
  if (cap <= 0) return;
  for (Trial& trial : study_.trials) {
    if (trial.state != TrialState::running) continue;
    const double since = double(clock_.wall_ms() - trial.ended_ms) / 1000.0;
    if (since < cap) continue;
    end_trial(trial, DecisionMaker::coordinator, "cut", TrialState::timed_out,
              Reason::wall_clock,
              fmt::format("no report of it came for {}, limits.trial_time is "
                          "{}",
                          format_duration(from_seconds(since)),
                          format_duration(from_seconds(cap))));
  }
}

const Trial* AskTell::owed() const {
  for (const Trial& trial : study_.trials) {
    const bool on_its_way =
        trial.state == TrialState::paused && trial.steps() < trial.target_step;
    if (of_search(trial) && (on_its_way || trial.state == TrialState::lost ||
                             trial.state == TrialState::waiting)) {
      return &trial;
    }
  }
  return nullptr;
}

bool AskTell::any_running() const {
  return std::any_of(
      study_.trials.begin(), study_.trials.end(),
      [](const Trial& t) { return t.state == TrialState::running; });
}

AskAnswer AskTell::wait(const std::string& why) const {
  return {AskAnswer::Kind::wait, 0, why_waiting(study_, why)};
}

AskAnswer AskTell::give(Trial& trial, Reason reason, const std::string& why) {
  ++trial.attempt;
  if (trial.started_ms == 0) trial.started_ms = clock_.wall_ms();
  records_.change(trial, TrialState::running, reason, "");
  return {AskAnswer::Kind::trial, trial.id, why};
}

AskAnswer AskTell::start(const Directive& directive) {
  Trial& trial = add_trial(study_, directive, clock_.wall_ms());
  budget_.trial_started();
  records_.change(trial, TrialState::waiting, Reason::proposed, directive.why);
  records_.decide(trial, DecisionMaker::next, "start", directive.why);
  return give(trial, Reason::assigned, directive.why);
}

AskAnswer AskTell::resume(const Directive& directive) {
  Trial& trial = study_.trial(directive.trial);
  trial.target_step = std::min(directive.target_step, study_.horizon);
  records_.decide(trial, DecisionMaker::next, "resume", directive.why);
  return give(trial, Reason::promoted, directive.why);
}

// Trials that are still being trained may be told of.
AskAnswer AskTell::finish(const std::string& why) {
  if (any_running()) return wait(why);
  if (study_.state != StudyState::finished) name_winner(why);
  study_.state = StudyState::finished;
  records_.save_study();
  return {AskAnswer::Kind::finished, 0, why};
}

void AskTell::name_winner(const std::string& why_over) {
  const Winner winner = winner_of(study_, scheduler_);
  if (winner.trial == 0) return;
  records_.set_final_json(
      encode_final_result(result_without_model(study_, winner, why_over)));
}

TellAnswer AskTell::tell(const Told& told) {
  if (told.trial < 1 || told.trial > std::ssize(study_.trials)) {
    throw Error(ErrorKind::config,
                fmt::format("there is no trial {} (it has {})", told.trial,
                            study_.trials.size()));
  }
  Trial& trial = study_.trial(told.trial);
  const bool stale = told.attempt != 0 && told.attempt != trial.attempt;
  if (stale || trial.state != TrialState::running) return {};
  const Records::Together together(records_);
  switch (told.outcome) {
    case Told::Outcome::report:
      return take_report(trial, told);
    case Told::Outcome::failed:
      ++trial.failures;
      records_.change(trial, TrialState::failed, Reason::crashed, told.detail);
      return {.counted = true};
    case Told::Outcome::invalid:
      budget_.trial_was_invalid();
      records_.change(trial, TrialState::invalid, Reason::said_invalid,
                      told.detail);
      return {.counted = true};
    case Told::Outcome::lost:
      records_.change(trial, TrialState::lost, Reason::node_lost, told.detail);
      return {.counted = true};
  }
  return {};
}

TellAnswer AskTell::take_report(Trial& trial, const Told& told) {
  const std::string& metric = study_.recipe.objective.metric;
  if (!told.metrics.contains(metric)) {
    std::string hint;
    for (const auto& [name, value] : told.metrics) {
      if (hint.empty()) hint = did_you_mean(name, std::span(&metric, 1));
    }
    throw Error(ErrorKind::config,
                fmt::format("trial {}: the report has no {}, the objective's "
                            "metric{} (write {}=NUMBER)",
                            trial.id, metric, hint, metric));
  }
  StepReport report;
  report.step = told.step > 0 ? told.step : trial.steps() + 1;
  if (report.step <= trial.steps()) return {.go_on = true};
  if (report.step > trial.steps() + 1) {
    throw Error(ErrorKind::config,
                fmt::format("trial {}: step {} comes after step {}: tell of "
                            "every step",
                            trial.id, report.step, trial.steps()));
  }
  report.metrics = told.metrics;
  report.last = told.last || study_.horizon == kOpenHorizon;
  report.sequence = records_.next_sequence();
  trial.curve.push_back(report);
  budget_.step_done();
  records_.copy_report(trial, report);
  return decide_upon(trial, report);
}

TellAnswer AskTell::decide_upon(Trial& trial, const StepReport& report) {
  const std::string& metric = study_.recipe.objective.metric;
  if (!std::isfinite(report.metrics.at(metric))) {
    ++trial.failures;
    end_trial(trial, DecisionMaker::coordinator, "cut", TrialState::failed,
              Reason::diverged,
              fmt::format("{} is {} at step {}", metric,
                          report.metrics.at(metric), report.step));
    return {.counted = true};
  }
  if (report.last || report.step >= study_.horizon) {
    end_trial(trial, DecisionMaker::coordinator, "complete",
              TrialState::complete, Reason::horizon,
              report.last ? "it has ended" : "reached the horizon");
    return {.counted = true};
  }
  const bool reached = report.step >= trial.target_step;
  const Verdict verdict = scheduler_.judge(study_, trial, reached);
  const int wanted = std::min(verdict.target_step, study_.horizon);
  if (verdict.kind == Verdict::Kind::cut) {
    end_trial(trial, DecisionMaker::judge, "cut", TrialState::cut,
              verdict.reason, verdict.why);
    return {.counted = true};
  }
  if (verdict.kind == Verdict::Kind::go_on && wanted > trial.target_step) {
    trial.target_step = wanted;
    records_.decide(trial, DecisionMaker::judge, "extend", verdict.why);
  } else if (verdict.kind == Verdict::Kind::pause || reached) {
    end_trial(trial, DecisionMaker::judge, "pause", TrialState::paused,
              Reason::scheduled, verdict.why);
    return {.counted = true};
  }
  records_.save(trial);
  return {.counted = true, .go_on = true};
}

void AskTell::end_trial(Trial& trial, DecisionMaker maker, const char* action,
                        TrialState state, Reason reason,
                        const std::string& why) {
  trial.target_step = trial.steps();
  records_.decide(trial, maker, action, why);
  records_.change(trial, state, reason, why);
}

}  // namespace dtune
