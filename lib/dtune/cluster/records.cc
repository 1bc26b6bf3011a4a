#include "dtune/cluster/records.h"

#include <utility>

#include "dtune/base/error.h"

namespace dtune {
namespace {

// As it is now, with the last step of its curve alone.
Trial snapshot(Trial& trial) {
  std::vector<StepReport> curve = std::exchange(trial.curve, {});
  Trial seen = trial;
  if (!curve.empty()) seen.curve.push_back(curve.back());
  trial.curve = std::move(curve);
  return seen;
}

}  // namespace

Records::Records(Study& study, TrialStore& store, ProgressSink& sink,
                 const Clock& clock)
    : study_(study), store_(store), sink_(sink), clock_(clock) {
  store_.flush();
  if (auto row = store_.load_study()) {
    row_ = std::move(*row);
    study_.sessions = row_.sessions;
    return;
  }
  const Recipe& recipe = study.recipe;
  row_.id = study.id;
  row_.name = recipe.study;
  row_.recipe_yaml = study.recipe_yaml;
  row_.horizon = study.horizon;
  row_.created_ms = study.created_ms;
  row_.budget_trials = recipe.budget.trials;
  row_.budget_seconds = to_seconds(recipe.budget.time);
  row_.budget_steps = recipe.budget.steps;
  row_.metric = recipe.objective.metric;
  row_.goal = recipe.objective.goal;
}

template <class Write>
bool Records::guarded(Write write) {
  try {
    write();
    return true;
  } catch (const Error& e) {
    // A bug, or another coordinator has the study: it is not the disk's.
    const bool lasts =
        e.kind() == ErrorKind::internal || e.kind() == ErrorKind::study;
    if (lasts) throw;
    block(std::string(e.what()) +
          "; no trial is started until the database can be written again, "
          "nothing is lost so far");
    return false;
  }
}

void Records::block(const std::string& why) {
  if (blocked_) return;
  blocked_ = true;
  said_ = !disk_full_;
  if (said_) alert(why);
}

void Records::begin_session() {
  row_.sessions = ++study_.sessions;
  const BudgetSpec& budget = study_.recipe.budget;
  guarded([&] {
    store_.put_session({study_.sessions, study_.recipe_yaml, budget.trials,
                        to_seconds(budget.time), budget.steps,
                        clock_.wall_ms()});
  });
}

void Records::change(Trial& trial, TrialState state, Reason reason,
                     const std::string& detail) {
  trial.state = state;
  trial.reason = reason;
  trial.detail = detail;
  trial.ended_ms = clock_.wall_ms();
  const Together together(*this);
  save(trial);
  guarded([&] {
    store_.put_event({trial.id, trial.attempt, state, reason, detail,
                      trial.ended_ms, study_.reports, study_.decisions,
                      study_.sessions, trial.failures, trial.node, trial.slot});
  });
  show([this, seen = snapshot(trial)] { sink_.on_state(study_, seen); });
}

// A line that a user has read must not turn out to be lost.
void Records::show(std::function<void()> call) {
  unshown_.push_back(std::move(call));
  guarded([this] {
    store_.after_commit([commits = commits_] {
      const std::lock_guard lock(commits->mutex);
      if (++commits->shown == 1) commits->wakeup.notify();
    });
  });
}

void Records::show_committed() {
  size_t count = 0;
  {
    const std::lock_guard lock(commits_->mutex);
    count = std::exchange(commits_->shown, 0);
  }
  for (; count > 0; --count) {
    const std::function<void()> call = std::move(unshown_.front());
    unshown_.pop_front();
    call();
  }
}

void Records::save(const Trial& trial) {
  guarded([&] { store_.put_trial(trial); });
}

void Records::decide(const Trial& trial, DecisionMaker maker,
                     const char* action, const std::string& why) {
  ++study_.decisions;
  Belief belief;
  const bool tuners =
      maker == DecisionMaker::next || maker == DecisionMaker::judge;
  if (tuners && belief_) {
    const bool goes_on = trial.target_step > trial.steps();
    belief = belief_(trial, goes_on ? trial.target_step : study_.horizon);
  }
  guarded([&] {
    store_.put_decision({study_.decisions, trial.id, action, trial.steps(), why,
                         clock_.wall_ms(), maker, trial.target_step,
                         study_.reports, study_.sessions,
                         study_.searched_seconds, std::move(belief)});
  });
}

void Records::put_rank_rounds(const std::vector<RankRound>& ranks) {
  guarded([&] {
    for (const RankRound& rank : ranks) store_.put_rank_round(rank);
  });
}

void Records::report(Trial& trial, const StepReport& report,
                     const CommittedReport& ack) {
  guarded([&] {
    store_.put_report(trial.id, trial.attempt, report,
                      [commits = commits_, ack] {
                        const std::lock_guard lock(commits->mutex);
                        commits->done.push_back(ack);
                        if (commits->done.size() == 1) commits->wakeup.notify();
                      });
  });
  show([this, seen = snapshot(trial), report] {
    sink_.on_report(study_, seen, report);
  });
}

void Records::copy_report(const Trial& trial, const StepReport& report) {
  guarded([&] { store_.put_report(trial.id, trial.attempt, report, {}); });
}

void Records::save_study() {
  row_.state = study_.state;
  row_.searched_seconds = study_.searched_seconds;
  guarded([&] { store_.put_study(row_); });
}

void Records::show_all() {
  if (!blocked_ && !unshown_.empty()) flush();
}

std::vector<CommittedReport> Records::committed() {
  show_committed();
  const std::lock_guard lock(commits_->mutex);
  return std::exchange(commits_->done, {});
}

void Records::retry() {
  if (blocked_ && flush()) {
    blocked_ = false;
    if (said_) alert("the database can be written again; going on");
  }
}

bool Records::flush() {
  try {
    store_.flush();
    show_committed();
    return true;
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::study) throw;
    block(e.what());
    return false;
  }
}

}  // namespace dtune
