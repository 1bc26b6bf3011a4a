#include "dtune/review/replay.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/review/journal.h"
#include "dtune/store/consistency.h"

namespace dtune {
namespace {

class Replay {
 public:
  Replay(const StudyRecords& records, const ReplayOptions& options)
      : records_(records), options_(options), journal_(journal_of(records)) {
    if (!records.row) return;
    study_.id = records.row->id;
    study_.horizon = records.row->horizon;
    study_.created_ms = records.row->created_ms;
  }

  ReplayResult run() {
    for (at_ = 0; at_ < journal_.size() && !result_.difference; ++at_) {
      const JournalItem& item = journal_[at_];
      switch (item.kind) {
        case JournalItem::Kind::session:
          begin(records_.sessions[item.index]);
          break;
        case JournalItem::Kind::report:
          take_in(records_.reports[item.index]);
          break;
        case JournalItem::Kind::event:
          change(records_.events[item.index]);
          break;
        case JournalItem::Kind::decision:
          decide(records_.decisions[item.index]);
          break;
      }
    }
    return std::move(result_);
  }

 private:
  void begin(const Session& session);
  void take_in(const RecordedReport& recorded);
  void change(const TrialEvent& event);
  void add_trial(const TrialEvent& event);
  void decide(const Decision& decision);

  Choice ask(const Decision& decision);
  Choice judge(const Trial& trial);
  Choice recorded_start(const Decision& decision) const;
  const Decision* upcoming(TrialId trial, DecisionMaker maker) const;
  bool may_start() const;
  bool is_judged(const Trial& trial) const;
  void compare(int64_t number, int step, Choice recorded, Choice taken);
  Trial& trial(TrialId id);
  [[noreturn]] static void fail(const std::string& what);

  const StudyRecords& records_;
  const ReplayOptions& options_;
  const std::vector<JournalItem> journal_;
  size_t at_ = 0;
  Study study_;
  ReplayTuner tuner_;
  int64_t compared_ = 0;  // number of the last decision that was compared
  ReplayResult result_;
};

void Replay::fail(const std::string& what) {
  throw Error(ErrorKind::data,
              fmt::format("the records of the study contradict each other: {} "
                          "(rows were changed or deleted by hand)",
                          what));
}

Trial& Replay::trial(TrialId id) {
  if (id < 1 || id > static_cast<TrialId>(study_.trials.size())) {
    fail(fmt::format("trial {} has not been started yet after report {}", id,
                     study_.reports));
  }
  return study_.trial(id);
}

void Replay::begin(const Session& session) {
  study_.recipe = options_.parse_recipe(session.recipe_yaml);
  study_.recipe_yaml = session.recipe_yaml;
  study_.recipe.budget.trials = static_cast<int>(session.budget_trials);
  study_.recipe.budget.time = from_seconds(session.budget_seconds);
  study_.recipe.budget.steps = session.budget_steps;
  study_.sessions = session.number;
  check_units(study_.recipe.space, records_.trials);
  tuner_ = options_.make_tuner(study_.recipe, study_.horizon);
  ++result_.sessions;
}

// As the coordinator's budget does.
bool Replay::may_start() const {
  const int limit = study_.recipe.budget.trials;
  const auto started = std::count_if(
      study_.trials.begin(), study_.trials.end(), [](const Trial& t) {
        return t.kind == TrialKind::search && t.state != TrialState::invalid;
      });
  return limit == 0 || started < limit;
}

// The next record is a decision upon this trial.
const Decision* Replay::upcoming(TrialId id, DecisionMaker maker) const {
  if (at_ + 1 >= journal_.size()) return nullptr;
  const JournalItem& item = journal_[at_ + 1];
  if (item.kind != JournalItem::Kind::decision) return nullptr;
  const Decision& decision = records_.decisions[item.index];
  const bool fits = decision.trial == id && decision.maker == maker;
  return fits ? &decision : nullptr;
}

// What the coordinator leaves to the scheduler.
bool Replay::is_judged(const Trial& trial) const {
  if (trial.kind != TrialKind::search || trial.curve.empty()) return false;
  const StepReport& report = trial.curve.back();
  return !report.last && report.step < study_.horizon &&
         objective_value(study_.recipe.objective, report).has_value();
}

void Replay::take_in(const RecordedReport& recorded) {
  Trial& t = trial(recorded.trial);
  const StepReport& report = recorded.report;
  if (report.step > t.steps() + 1) {
    fail(fmt::format("trial {} reports step {} after step {}", t.id,
                     report.step, t.steps()));
  }
  study_.reports = report.sequence;
  const bool fresh = report.step > t.steps();
  if (fresh) {
    t.curve.push_back(report);
  } else {  // trained again
    t.curve[size_t(report.step) - 1] = report;
  }
  if (!fresh || t.state != TrialState::running || !is_judged(t)) return;
  const Decision* decision = upcoming(t.id, DecisionMaker::judge);
  if (decision != nullptr) study_.searched_seconds = decision->searched_seconds;
  Choice was{"go on", t.id, {}, t.target_step, {}};
  if (decision != nullptr) {
    was = {decision->action, t.id, {}, decision->target_step, decision->why};
    compared_ = decision->number;
  }
  compare(study_.decisions + 1, t.steps(), std::move(was), judge(t));
}

// What the coordinator makes of the scheduler's verdict.
Choice Replay::judge(const Trial& t) {
  if (!tuner_.scheduler) fail("no session was begun");
  ++result_.judged;
  const bool reached = t.steps() >= t.target_step;
  const Verdict verdict = tuner_.scheduler->judge(study_, t, reached);
  const int wanted = std::min(verdict.target_step, study_.horizon);
  const auto choice = [&](const char* action, int target) {
    return Choice{action, t.id, {}, target, verdict.why};
  };
  switch (verdict.kind) {
    case Verdict::Kind::cut:
      return choice("cut", t.steps());
    case Verdict::Kind::pause:
      return choice("pause", t.steps());
    case Verdict::Kind::go_on:
      break;
  }
  if (wanted > t.target_step) return choice("extend", wanted);
  return reached ? choice("pause", t.steps()) : choice("go on", t.target_step);
}

// What the scheduler has a free slot do.
Choice Replay::ask(const Decision& decision) {
  if (!tuner_.scheduler) fail("no session was begun");
  ++result_.asked;
  study_.searched_seconds = decision.searched_seconds;
  const Directive directive = tuner_.scheduler->next(
      study_, *tuner_.sampler, study_.decisions + 1, may_start());
  switch (directive.kind) {
    case Directive::Kind::start:
      return {"start", static_cast<TrialId>(study_.trials.size()) + 1,
              directive.point,
              std::clamp(directive.target_step, 1, study_.horizon),
              directive.why};
    case Directive::Kind::resume:
      return {"resume",
              directive.trial,
              {},
              std::min(directive.target_step, study_.horizon),
              directive.why};
    case Directive::Kind::wait:
    case Directive::Kind::finish:
      break;
  }
  return {"wait", 0, {}, 0, directive.why};
}

void Replay::compare(int64_t number, int step, Choice recorded, Choice taken) {
  if (recorded == taken) return;
  result_.difference = {number, study_.reports, step, std::move(recorded),
                        std::move(taken)};
}

// A point that made no recipe was proposed all the same.
Choice Replay::recorded_start(const Decision& decision) const {
  const Trial& row = records_.trials[size_t(decision.trial) - 1];
  return {decision.action == "invalid" ? "start" : decision.action,
          decision.trial, row.point, decision.target_step, decision.why};
}

void Replay::add_trial(const TrialEvent& event) {
  const size_t place = study_.trials.size();
  if (event.trial != static_cast<TrialId>(place) + 1 ||
      place >= records_.trials.size() ||
      records_.trials[place].id != event.trial) {
    fail(fmt::format("trial {} comes after trial {}", event.trial, place));
  }
  const Trial& row = records_.trials[place];
  Trial fresh;
  fresh.id = row.id;
  fresh.kind = row.kind;
  fresh.point = row.point;
  fresh.unit = row.unit;
  fresh.seed = row.seed;
  fresh.created_ms = row.created_ms;
  if (row.kind == TrialKind::search) {
    const Decision* decision = upcoming(row.id, DecisionMaker::next);
    if (decision == nullptr) {
      fail(fmt::format("there is no decision to start trial {}", row.id));
    }
    fresh.target_step = decision->target_step;
    compared_ = decision->number;
    compare(decision->number, 0, recorded_start(*decision), ask(*decision));
  }
  study_.trials.push_back(std::move(fresh));
}

void Replay::change(const TrialEvent& event) {
  if (event.trial > static_cast<TrialId>(study_.trials.size())) {
    add_trial(event);
  }
  Trial& t = trial(event.trial);
  t.state = event.state;
  t.reason = event.reason;
  t.detail = event.detail;
  t.attempt = event.attempt;
  t.failures = event.failures;
  t.ended_ms = event.wall_ms;
  if (t.state == TrialState::running && t.started_ms == 0) {
    t.started_ms = event.wall_ms;
  }
}

void Replay::decide(const Decision& decision) {
  Trial& t = trial(decision.trial);
  if (decision.number != compared_) {
    const Choice was{
        decision.action, t.id, {}, decision.target_step, decision.why};
    if (decision.maker == DecisionMaker::next) {
      compare(decision.number, t.steps(), was, ask(decision));
    } else if (decision.maker == DecisionMaker::judge) {
      // Upon a report that an earlier session had left undecided.
      study_.searched_seconds = decision.searched_seconds;
      const TrialState state = std::exchange(t.state, TrialState::running);
      compare(decision.number, t.steps(), was, judge(t));
      t.state = state;
    }
  }
  t.target_step = decision.target_step;
  study_.decisions = decision.number;
  study_.searched_seconds = decision.searched_seconds;
  ++result_.decisions;
}

}  // namespace

ReplayResult replay(const StudyRecords& records, const ReplayOptions& options) {
  return Replay(records, options).run();
}

}  // namespace dtune
