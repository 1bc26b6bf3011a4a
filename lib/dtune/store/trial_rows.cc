// Rows of trials and of their reports.
#include <bit>

#include "dtune/store/checked_row.h"
#include "dtune/store/codec.h"
#include "dtune/store/consistency.h"
#include "dtune/store/rows.h"

namespace dtune {

const char* const kPutTrial =
    "INSERT INTO trial (id, kind, point, unit, seed, state, reason, detail, "
    "attempt, failures, target_step, node, slot, created_ms, started_ms, "
    "ended_ms, checkpoint, checkpoint_step, repeats) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, "
    "point = excluded.point, unit = excluded.unit, seed = excluded.seed, "
    "state = excluded.state, reason = excluded.reason, "
    "detail = excluded.detail, attempt = excluded.attempt, "
    "failures = excluded.failures, target_step = excluded.target_step, "
    "node = excluded.node, slot = excluded.slot, "
    "created_ms = excluded.created_ms, started_ms = excluded.started_ms, "
    "ended_ms = excluded.ended_ms, checkpoint = excluded.checkpoint, "
    "checkpoint_step = excluded.checkpoint_step, "
    "repeats = excluded.repeats";

const char* const kPutReport =
    "INSERT INTO report (trial, step, attempt, metrics, seconds, "
    "checkpoint_seconds, last, sequence) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT DO NOTHING";

namespace {

// A repeat is a final training that says so (schema.cc, version 4).
const char* to_word(TrialKind kind) {
  return to_string(kind == TrialKind::repeat ? TrialKind::final : kind);
}

constexpr const char* kSelectTrials =
    "SELECT id, kind, point, unit, seed, state, reason, detail, attempt, "
    "failures, target_step, node, slot, created_ms, started_ms, ended_ms, "
    "checkpoint, checkpoint_step, repeats, last_step, best_value "
    "FROM trial ORDER BY id";

Trial trial_at(const Statement& row) {
  const CheckedRow checked(row, "trial");
  Trial trial;
  trial.id = checked.whole(0, kCount);
  trial.kind =
      row.integer(18) == 1 ? TrialKind::repeat : parse_trial_kind(row.text(1));
  trial.point = decode_point(row.text(2));
  trial.unit = decode_unit(row.text(3));
  trial.seed = std::bit_cast<uint64_t>(row.integer(4));
  trial.state = parse_trial_state(row.text(5));
  trial.reason = parse_reason(row.text(6));
  trial.detail = row.text(7);
  trial.attempt = checked.natural(8);
  trial.failures = checked.natural(9);
  trial.target_step = checked.natural(10, kSteps);
  trial.node = row.text(11);
  trial.slot = checked.natural(12, kSlot);
  trial.created_ms = checked.whole(13, kWallTime);
  trial.started_ms = checked.whole(14, kWallTime);
  trial.ended_ms = checked.whole(15, kWallTime);
  trial.checkpoint = row.text(16);
  trial.checkpoint_step = checked.natural(17, kSteps);
  return trial;
}

CurveEnds ends_at(const Statement& row) {
  CurveEnds ends;
  ends.last_step = CheckedRow(row, "trial").natural(19, kSteps);
  if (!row.null(20)) ends.best = row.real(20);
  return ends;
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
  const CheckedRow checked(row, "report");
  StepReport report;
  report.step = checked.natural(1, kStep);
  report.metrics = decode_metrics(row.text(2));
  report.seconds = checked.seconds(3);
  report.checkpoint_seconds = checked.seconds(4);
  report.last = row.integer(5) != 0;
  report.sequence = checked.whole(6, kCount);
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
    StepReport report = report_at(rows);
    while (trial != trials.end() && trial->id < id) ++trial;
    if (trial == trials.end() || trial->id != id) continue;
    if (trial->steps() == report.step) {
      trial->curve.back() = std::move(report);
    } else {
      trial->curve.push_back(std::move(report));
    }
  }
}

}  // namespace

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
          int64_t{trial.checkpoint_step},
          int64_t{trial.kind == TrialKind::repeat}};
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

std::vector<Trial> read_trial_rows(Database& database,
                                   std::vector<CurveEnds>& ends) {
  std::vector<Trial> trials;
  Statement rows(database, kSelectTrials);
  while (rows.step()) {
    trials.push_back(trial_at(rows));
    ends.push_back(ends_at(rows));
  }
  return trials;
}

std::vector<Trial> read_trials(Database& database, CurvePart part) {
  std::vector<CurveEnds> ends;
  std::vector<Trial> trials = read_trial_rows(database, ends);
  read_curves(database, part, trials);
  check_trials(read_study(database), trials, ends, part);
  return trials;
}

std::vector<RecordedReport> read_report_rows(Database& database) {
  std::vector<RecordedReport> reports;
  Statement rows(database, kSelectReports);
  while (rows.step()) {
    const CheckedRow report(rows, "report");
    reports.push_back(
        {report.whole(0, kCount), report.natural(7), report_at(rows)});
  }
  return reports;
}

}  // namespace dtune
