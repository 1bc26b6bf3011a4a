#include "dtune/store/rows.h"

#include "dtune/store/checked_row.h"
#include "dtune/store/codec.h"
#include "dtune/store/consistency.h"
#include "dtune/study/study.h"

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

const char* const kPutEvent =
    "INSERT INTO event (trial, attempt, state, reason, detail, wall_ms, "
    "after_report, after_decision, session, failures, node, slot) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

const char* const kPutDecision =
    "INSERT INTO decision (number, trial, action, step, why, wall_ms, maker, "
    "target_step, after_report, session, searched_seconds, weights, "
    "forecast_step, forecast_mean, forecast_low, forecast_high) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT DO NOTHING";

const char* const kPutSession =
    "INSERT INTO session (number, recipe_yaml, budget_trials, budget_seconds, "
    "budget_steps, started_ms) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT DO NOTHING";

const char* const kPutRankRound =
    "INSERT INTO rank_round (trial, attempt, round, rank, node, wall_ms, "
    "samples, compute_seconds, wait_seconds, late, share, present) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING";

namespace {

const char* to_word(Goal goal) {
  return goal == Goal::minimize ? "minimize" : "maximize";
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
          int64_t{event.failures},
          event.node,
          int64_t{event.slot}};
}

Row decision_row(const Decision& decision) {
  const std::optional<Prediction>& forecast = decision.belief.forecast;
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
          decision.searched_seconds,
          encode_metrics(decision.belief.weights),
          forecast ? Cell(int64_t{forecast->step}) : Cell(),
          forecast ? Cell(forecast->mean) : Cell(),
          forecast ? Cell(forecast->low) : Cell(),
          forecast ? Cell(forecast->high) : Cell()};
}

Row session_row(const Session& session) {
  return {session.number,         session.recipe_yaml,  session.budget_trials,
          session.budget_seconds, session.budget_steps, session.started_ms};
}

Row rank_round_row(const RankRound& rank) {
  return {rank.trial,        int64_t{rank.attempt},
          rank.round,        int64_t{rank.rank},
          rank.node,         rank.wall_ms,
          rank.samples,      rank.compute_seconds,
          rank.wait_seconds, rank.late,
          rank.share,        int64_t{rank.present}};
}

std::optional<StudyRow> read_study(Database& database) {
  Statement row(database,
                "SELECT id, name, recipe_yaml, recipe_hash, recipe_path, "
                "state, horizon, searched_seconds, created_ms, budget_trials, "
                "budget_seconds, budget_steps, final_json, metric, goal, "
                "sessions "
                "FROM study");
  if (!row.step()) return std::nullopt;
  const CheckedRow checked(row, "study");
  StudyRow study;
  study.id = row.text(0);
  study.name = row.text(1);
  study.recipe_yaml = row.text(2);
  study.recipe_hash = row.text(3);
  study.recipe_path = row.text(4);
  study.state = parse_study_state(row.text(5));
  study.horizon = checked.natural(6, kStep);
  study.searched_seconds = checked.seconds(7);
  study.created_ms = checked.whole(8, kWallTime);
  study.budget_trials = checked.whole(9, kNatural);
  study.budget_seconds = checked.seconds(10);
  study.budget_steps = checked.whole(11, kCount);
  study.final_json = row.text(12);
  study.metric = row.text(13);
  study.goal = row.text(14) == "minimize" ? Goal::minimize : Goal::maximize;
  study.sessions = checked.whole(15, kCount);
  return study;
}

std::vector<TrialEvent> read_events(Database& database, TrialId trial) {
  std::string sql =
      "SELECT trial, attempt, state, reason, detail, wall_ms, after_report, "
      "after_decision, session, failures, node, slot FROM event";
  if (trial != 0) sql += " WHERE trial = ?";
  Statement rows(database, sql + " ORDER BY number");
  if (trial != 0) rows.bind(1, trial);
  std::vector<TrialEvent> events;
  const CheckedRow checked(rows, "event");
  while (rows.step()) {
    TrialEvent event;
    event.trial = checked.whole(0, kCount);
    event.attempt = checked.natural(1);
    event.state = parse_trial_state(rows.text(2));
    event.reason = parse_reason(rows.text(3));
    event.detail = rows.text(4);
    event.wall_ms = checked.whole(5, kWallTime);
    event.after_report = checked.whole(6, kPlace);
    event.after_decision = checked.whole(7, kPlace);
    event.session = checked.whole(8, kCount);
    event.failures = checked.natural(9);
    event.node = rows.text(10);
    event.slot = checked.natural(11, kSlot);
    events.push_back(std::move(event));
  }
  return events;
}

std::vector<Decision> read_decisions(Database& database) {
  Statement rows(database,
                 "SELECT number, trial, action, step, why, wall_ms, maker, "
                 "target_step, after_report, session, searched_seconds, "
                 "weights, forecast_step, forecast_mean, forecast_low, "
                 "forecast_high FROM decision ORDER BY number");
  std::vector<Decision> decisions;
  const CheckedRow checked(rows, "decision");
  while (rows.step()) {
    Decision decision;
    decision.number = checked.whole(0, kCount);
    decision.trial = checked.whole(1, kCount);
    decision.action = rows.text(2);
    decision.step = checked.natural(3, kSteps);
    decision.why = rows.text(4);
    decision.wall_ms = checked.whole(5, kWallTime);
    decision.maker = parse_decision_maker(rows.text(6));
    decision.target_step = checked.natural(7, kSteps);
    decision.after_report = checked.whole(8, kPlace);
    decision.session = checked.whole(9, kCount);
    decision.searched_seconds = checked.seconds(10);
    decision.belief.weights = decode_metrics(rows.text(11));
    if (!rows.null(12)) {
      decision.belief.forecast =
          Prediction{checked.natural(12, kSteps), rows.real(13), rows.real(14),
                     rows.real(15)};
    }
    decisions.push_back(std::move(decision));
  }
  check_decisions(decisions);
  return decisions;
}

namespace {

std::vector<RankRound> read_rank_rounds(Database& database) {
  Statement rows(database,
                 "SELECT trial, attempt, round, rank, node, wall_ms, samples, "
                 "compute_seconds, wait_seconds, late, share, present "
                 "FROM rank_round ORDER BY trial, attempt, round, rank");
  const CheckedRow checked(rows, "rank_round");
  std::vector<RankRound> ranks;
  while (rows.step()) {
    ranks.push_back({.trial = checked.whole(0, kCount),
                     .attempt = checked.natural(1),
                     .round = checked.whole(2, kCount),
                     .rank = checked.natural(3, kSlot),
                     .node = rows.text(4),
                     .wall_ms = checked.whole(5, kWallTime),
                     .samples = checked.whole(6, kCount),
                     .compute_seconds = checked.seconds(7),
                     .wait_seconds = checked.seconds(8),
                     .late = checked.whole(9, kCount),
                     .share = rows.real(10),
                     .present = rows.integer(11) != 0});
  }
  return ranks;
}

}  // namespace

StudyRecords read_records(Database& database) {
  StudyRecords records;
  records.row = read_study(database);
  std::vector<CurveEnds> ends;
  records.trials = read_trial_rows(database, ends);
  Statement sessions(database,
                     "SELECT number, recipe_yaml, budget_trials, "
                     "budget_seconds, budget_steps, started_ms "
                     "FROM session ORDER BY number");
  const CheckedRow session(sessions, "session");
  while (sessions.step()) {
    records.sessions.push_back({session.whole(0, kCount), sessions.text(1),
                                session.whole(2, kNatural), session.seconds(3),
                                session.whole(4, kCount),
                                session.whole(5, kWallTime)});
  }
  records.reports = read_report_rows(database);
  records.events = read_events(database, 0);
  records.decisions = read_decisions(database);
  records.ranks = read_rank_rounds(database);
  check_records(records, ends);
  return records;
}

}  // namespace dtune
