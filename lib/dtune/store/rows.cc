#include "dtune/store/rows.h"

#include <bit>

#include "dtune/store/codec.h"

namespace dtune {

const char* const kPutStudy =
    "INSERT INTO study (one, id, name, recipe_yaml, recipe_hash, recipe_path, "
    "state, horizon, searched_seconds, created_ms, budget_trials, "
    "budget_seconds, budget_steps, final_json, metric, goal, sessions) "
    "VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (one) DO UPDATE SET id = excluded.id, name = excluded.name, "
    "recipe_yaml = excluded.recipe_yaml, recipe_hash = excluded.recipe_hash, "
    "recipe_path = excluded.recipe_path, state = excluded.state, "
    "horizon = excluded.horizon, "
    "searched_seconds = excluded.searched_seconds, "
    "created_ms = excluded.created_ms, "
    "budget_trials = excluded.budget_trials, "
    "budget_seconds = excluded.budget_seconds, "
    "budget_steps = excluded.budget_steps, final_json = excluded.final_json, "
    "metric = excluded.metric, goal = excluded.goal, "
    "sessions = excluded.sessions";

const char* const kPutTrial =
    "INSERT INTO trial (id, kind, point, unit, seed, state, reason, detail, "
    "attempt, failures, target_step, node, slot, created_ms, started_ms, "
    "ended_ms, checkpoint, checkpoint_step) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, "
    "point = excluded.point, unit = excluded.unit, seed = excluded.seed, "
    "state = excluded.state, reason = excluded.reason, "
    "detail = excluded.detail, attempt = excluded.attempt, "
    "failures = excluded.failures, target_step = excluded.target_step, "
    "node = excluded.node, slot = excluded.slot, "
    "created_ms = excluded.created_ms, started_ms = excluded.started_ms, "
    "ended_ms = excluded.ended_ms, checkpoint = excluded.checkpoint, "
    "checkpoint_step = excluded.checkpoint_step";

const char* const kPutReport =
    "INSERT INTO report (trial, step, attempt, metrics, seconds, "
    "checkpoint_seconds, last, sequence) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT DO NOTHING";

const char* const kPutEvent =
    "INSERT INTO event (trial, attempt, state, reason, detail, wall_ms, "
    "after_report, after_decision, session, failures) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

const char* const kPutDecision =
    "INSERT INTO decision (number, trial, action, step, why, wall_ms, maker, "
    "target_step, after_report, session, searched_seconds) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING";

const char* const kPutSession =
    "INSERT INTO session (number, recipe_yaml, budget_trials, budget_seconds, "
    "budget_steps, started_ms) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT DO NOTHING";

namespace {

const char* to_word(TrialKind kind) {
  return kind == TrialKind::final ? "final" : "search";
}

const char* to_word(Goal goal) {
  return goal == Goal::minimize ? "minimize" : "maximize";
}

constexpr const char* kSelectTrials =
    "SELECT id, kind, point, unit, seed, state, reason, detail, attempt, "
    "failures, target_step, node, slot, created_ms, started_ms, ended_ms, "
    "checkpoint, checkpoint_step FROM trial ORDER BY id";

Trial trial_at(const Statement& row) {
  Trial trial;
  trial.id = row.integer(0);
  trial.kind = row.text(1) == "final" ? TrialKind::final : TrialKind::search;
  trial.point = decode_point(row.text(2));
  trial.unit = decode_unit(row.text(3));
  trial.seed = std::bit_cast<uint64_t>(row.integer(4));
  trial.state = parse_trial_state(row.text(5));
  trial.reason = parse_reason(row.text(6));
  trial.detail = row.text(7);
  trial.attempt = static_cast<Attempt>(row.integer(8));
  trial.failures = static_cast<int>(row.integer(9));
  trial.target_step = static_cast<int>(row.integer(10));
  trial.node = row.text(11);
  trial.slot = static_cast<int>(row.integer(12));
  trial.created_ms = row.integer(13);
  trial.started_ms = row.integer(14);
  trial.ended_ms = row.integer(15);
  trial.checkpoint = row.text(16);
  trial.checkpoint_step = static_cast<int>(row.integer(17));
  return trial;
}

// The key's order makes later attempts of a step follow earlier ones.
constexpr const char* kSelectCurves =
    "SELECT trial, step, metrics, seconds, checkpoint_seconds, last, sequence "
    "FROM report ORDER BY trial, step, attempt";

// CROSS keeps SQLite from scanning all reports.
constexpr const char* kSelectEnds =
    "SELECT trial, step, metrics, seconds, checkpoint_seconds, last, sequence "
    "FROM trial CROSS JOIN report ON report.trial = trial.id "
    "AND report.step IN (trial.best_step, trial.last_step) "
    "ORDER BY report.trial, report.step, report.attempt";

constexpr const char* kSelectReports =
    "SELECT trial, step, metrics, seconds, checkpoint_seconds, last, sequence, "
    "attempt FROM report ORDER BY sequence, trial, step, attempt";

StepReport report_at(const Statement& row) {
  StepReport report;
  report.step = static_cast<int>(row.integer(1));
  report.metrics = decode_metrics(row.text(2));
  report.seconds = row.real(3);
  report.checkpoint_seconds = row.real(4);
  report.last = row.integer(5) != 0;
  report.sequence = row.integer(6);
  return report;
}

void read_curves(Database& database, CurvePart part,
                 std::vector<Trial>& trials) {
  // Without an objective there is no best step to go by.
  const bool ends = part == CurvePart::ends &&
                    !database.query_text("SELECT metric FROM study").empty();
  Statement rows(database, ends ? kSelectEnds : kSelectCurves);
  auto trial = trials.begin();  // both are in order of the trial's id
  while (rows.step()) {
    const TrialId id = rows.integer(0);
    while (trial != trials.end() && trial->id < id) ++trial;
    if (trial == trials.end() || trial->id != id) continue;
    StepReport report = report_at(rows);
    if (trial->steps() == report.step) {
      trial->curve.back() = std::move(report);
    } else {
      trial->curve.push_back(std::move(report));
    }
  }
}

}  // namespace

Row study_row(const StudyRow& study) {
  return {study.id,
          study.name,
          study.recipe_yaml,
          study.recipe_hash,
          study.recipe_path,
          std::string(to_string(study.state)),
          int64_t{study.horizon},
          study.searched_seconds,
          study.created_ms,
          study.budget_trials,
          study.budget_seconds,
          study.budget_steps,
          study.final_json,
          study.metric,
          std::string(to_word(study.goal)),
          study.sessions};
}

Row trial_row(const Trial& trial) {
  return {trial.id,
          std::string(to_word(trial.kind)),
          encode_point(trial.point),
          encode_unit(trial.unit),
          std::bit_cast<int64_t>(trial.seed),
          std::string(to_string(trial.state)),
          std::string(to_string(trial.reason)),
          trial.detail,
          int64_t{trial.attempt},
          int64_t{trial.failures},
          int64_t{trial.target_step},
          trial.node,
          int64_t{trial.slot},
          trial.created_ms,
          trial.started_ms,
          trial.ended_ms,
          trial.checkpoint,
          int64_t{trial.checkpoint_step}};
}

Row report_row(TrialId trial, Attempt attempt, const StepReport& report) {
  return {trial,
          int64_t{report.step},
          int64_t{attempt},
          encode_metrics(report.metrics),
          report.seconds,
          report.checkpoint_seconds,
          int64_t{report.last},
          report.sequence};
}

Row event_row(const TrialEvent& event) {
  return {event.trial,
          int64_t{event.attempt},
          std::string(to_string(event.state)),
          std::string(to_string(event.reason)),
          event.detail,
          event.wall_ms,
          event.after_report,
          event.after_decision,
          event.session,
          int64_t{event.failures}};
}

Row decision_row(const Decision& decision) {
  return {decision.number,
          decision.trial,
          decision.action,
          int64_t{decision.step},
          decision.why,
          decision.wall_ms,
          std::string(to_string(decision.maker)),
          int64_t{decision.target_step},
          decision.after_report,
          decision.session,
          decision.searched_seconds};
}

Row session_row(const Session& session) {
  return {session.number,         session.recipe_yaml,  session.budget_trials,
          session.budget_seconds, session.budget_steps, session.started_ms};
}

std::optional<StudyRow> read_study(Database& database) {
  Statement row(database,
                "SELECT id, name, recipe_yaml, recipe_hash, recipe_path, "
                "state, horizon, searched_seconds, created_ms, budget_trials, "
                "budget_seconds, budget_steps, final_json, metric, goal, "
                "sessions "
                "FROM study");
  if (!row.step()) return std::nullopt;
  StudyRow study;
  study.id = row.text(0);
  study.name = row.text(1);
  study.recipe_yaml = row.text(2);
  study.recipe_hash = row.text(3);
  study.recipe_path = row.text(4);
  study.state = parse_study_state(row.text(5));
  study.horizon = static_cast<int>(row.integer(6));
  study.searched_seconds = row.real(7);
  study.created_ms = row.integer(8);
  study.budget_trials = row.integer(9);
  study.budget_seconds = row.real(10);
  study.budget_steps = row.integer(11);
  study.final_json = row.text(12);
  study.metric = row.text(13);
  study.goal = row.text(14) == "minimize" ? Goal::minimize : Goal::maximize;
  study.sessions = row.integer(15);
  return study;
}

std::vector<Trial> read_trials(Database& database, CurvePart part) {
  std::vector<Trial> trials;
  Statement rows(database, kSelectTrials);
  while (rows.step()) trials.push_back(trial_at(rows));
  read_curves(database, part, trials);
  return trials;
}

std::vector<TrialEvent> read_events(Database& database, TrialId trial) {
  std::string sql =
      "SELECT trial, attempt, state, reason, detail, wall_ms, after_report, "
      "after_decision, session, failures FROM event";
  if (trial != 0) sql += " WHERE trial = ?";
  Statement rows(database, sql + " ORDER BY number");
  if (trial != 0) rows.bind(1, trial);
  std::vector<TrialEvent> events;
  while (rows.step()) {
    TrialEvent event;
    event.trial = rows.integer(0);
    event.attempt = static_cast<Attempt>(rows.integer(1));
    event.state = parse_trial_state(rows.text(2));
    event.reason = parse_reason(rows.text(3));
    event.detail = rows.text(4);
    event.wall_ms = rows.integer(5);
    event.after_report = rows.integer(6);
    event.after_decision = rows.integer(7);
    event.session = rows.integer(8);
    event.failures = static_cast<int>(rows.integer(9));
    events.push_back(std::move(event));
  }
  return events;
}

std::vector<Decision> read_decisions(Database& database) {
  Statement rows(database,
                 "SELECT number, trial, action, step, why, wall_ms, maker, "
                 "target_step, after_report, session, searched_seconds "
                 "FROM decision ORDER BY number");
  std::vector<Decision> decisions;
  while (rows.step()) {
    Decision decision;
    decision.number = rows.integer(0);
    decision.trial = rows.integer(1);
    decision.action = rows.text(2);
    decision.step = static_cast<int>(rows.integer(3));
    decision.why = rows.text(4);
    decision.wall_ms = rows.integer(5);
    decision.maker = parse_decision_maker(rows.text(6));
    decision.target_step = static_cast<int>(rows.integer(7));
    decision.after_report = rows.integer(8);
    decision.session = rows.integer(9);
    decision.searched_seconds = rows.real(10);
    decisions.push_back(std::move(decision));
  }
  return decisions;
}

StudyRecords read_records(Database& database) {
  StudyRecords records;
  records.row = read_study(database);
  Statement trials(database, kSelectTrials);
  while (trials.step()) records.trials.push_back(trial_at(trials));
  Statement sessions(database,
                     "SELECT number, recipe_yaml, budget_trials, "
                     "budget_seconds, budget_steps, started_ms "
                     "FROM session ORDER BY number");
  while (sessions.step()) {
    records.sessions.push_back({sessions.integer(0), sessions.text(1),
                                sessions.integer(2), sessions.real(3),
                                sessions.integer(4), sessions.integer(5)});
  }
  Statement reports(database, kSelectReports);
  while (reports.step()) {
    records.reports.push_back({reports.integer(0),
                               static_cast<Attempt>(reports.integer(7)),
                               report_at(reports)});
  }
  records.events = read_events(database, 0);
  records.decisions = read_decisions(database);
  return records;
}

}  // namespace dtune
