#include "dtune/store/sqlite_writer.h"

#include <fmt/format.h>

#include "dtune/store/codec.h"

namespace dtune {
namespace {

constexpr const char* kExtend =
    "UPDATE trial SET last_step = ?2, "
    "best_step = CASE WHEN ?3 > ifnull(best_value, -9e999) THEN ?2 "
    "ELSE best_step END, "
    "best_value = CASE WHEN ?3 > ifnull(best_value, -9e999) THEN ?3 "
    "ELSE best_value END WHERE id = ?1";

}  // namespace

SqliteWriter::SqliteWriter(Database& database)
    : database_(database),
      put_study_(database, kPutStudy),
      put_trial_(database, kPutTrial),
      put_report_(database, kPutReport),
      put_event_(database, kPutEvent),
      put_decision_(database, kPutDecision),
      put_session_(database, kPutSession),
      put_rank_round_(database, kPutRankRound),
      objective_(database, "SELECT metric, goal FROM study"),
      last_step_(database, "SELECT last_step FROM trial WHERE id = ?"),
      extend_(database, kExtend),
      curve_(database,
             "SELECT step, metrics FROM report WHERE trial = ? "
             "ORDER BY step, attempt"),
      set_ends_(database,
                "UPDATE trial SET last_step = ?2, best_step = ?3, "
                "best_value = ?4 WHERE id = ?1"),
      sessions_(database, "SELECT sessions FROM study"),
      epoch_(stored_epoch()) {}

int64_t SqliteWriter::stored_epoch() {
  const int64_t epoch = sessions_.step() ? sessions_.integer(0) : -1;
  sessions_.reset();
  return epoch;
}

void SqliteWriter::check_fence() {
  if (stored_epoch() == epoch_) return;
  throw Error(ErrorKind::study,
              fmt::format("{}: another process has gone on with this study; "
                          "this one stops (what it has not stored yet will be "
                          "trained again by the other)",
                          database_.path().string()));
}

std::optional<Error> SqliteWriter::commit(std::vector<WriteOp>& group) {
  database_.execute("BEGIN IMMEDIATE");
  try {
    check_fence();
    std::optional<Error> rejected = write_all(group);
    const int64_t epoch = stored_epoch();
    database_.execute("COMMIT");
    epoch_ = epoch;
    return rejected;
  } catch (...) {
    try {
      if (!database_.autocommit()) database_.execute("ROLLBACK");
    } catch (const Error&) {
      // What made the commit fail says more.
    }
    throw;
  }
}

std::optional<Error> SqliteWriter::write_all(std::vector<WriteOp>& group) {
  std::optional<Error> rejected;
  for (WriteOp& op : group) {
    op.refused = false;
    try {
      write(op);
    } catch (const SqliteError& error) {
      // A record that breaks a constraint must not hold up the others.
      const bool hopeless = error.kind() == ErrorKind::internal;
      if (!hopeless || database_.autocommit()) throw;
      op.refused = true;
      rejected = error;
    }
  }
  return rejected;
}

void SqliteWriter::write(const WriteOp& op) {
  switch (op.table) {
    case Table::study:
      return write_study(op);
    case Table::trial:
      run(put_trial_, op.row);
      return;
    case Table::report:
      return write_report(op);
    case Table::event:
      run(put_event_, op.row);
      return;
    case Table::decision:
      run(put_decision_, op.row);
      return;
    case Table::session:
      run(put_session_, op.row);
      return;
    case Table::rank_round:
      run(put_rank_round_, op.row);
      return;
    case Table::none:
      return;
  }
}

// True if it changed a row.
bool SqliteWriter::run(Statement& statement, const Row& row) {
  for (size_t i = 0; i < row.size(); ++i) {
    statement.bind(static_cast<int>(i) + 1, row[i]);
  }
  statement.run();
  return database_.changes() > 0;
}

void SqliteWriter::write_study(const WriteOp& op) {
  const auto objective = [this] {
    const bool found = objective_.step();
    std::string text =
        found ? objective_.text(0) + '\n' + objective_.text(1) : "";
    objective_.reset();
    return text;
  };
  const std::string before = objective();
  run(put_study_, op.row);
  if (before.empty() || before == objective()) return;
  std::vector<int64_t> trials;
  Statement ids(database_, "SELECT id FROM trial");
  while (ids.step()) trials.push_back(ids.integer(0));
  for (const int64_t trial : trials) refresh_ends(trial);
}

void SqliteWriter::write_report(const WriteOp& op) {
  if (!run(put_report_, op.row)) return;  // a repeat
  const int64_t trial = std::get<int64_t>(op.row[0]);
  const int64_t step = std::get<int64_t>(op.row[1]);
  last_step_.bind(1, trial);
  const bool known = last_step_.step();
  const int64_t last = known ? last_step_.integer(0) : 0;
  last_step_.reset();
  if (step <= last) return refresh_ends(trial);  // another attempt's step
  extend_.bind(1, trial);
  extend_.bind(2, step);
  extend_.bind(3, op.objective ? Cell(*op.objective) : Cell());
  extend_.run();
}

// The derived columns of a trial from all its reports: the latest attempt of
// each step counts, the earliest of equally good steps is the best.
void SqliteWriter::refresh_ends(int64_t trial) {
  if (!objective_.step()) return;
  const ObjectiveSpec objective = {
      objective_.text(0),
      objective_.text(1) == "minimize" ? Goal::minimize : Goal::maximize};
  objective_.reset();

  std::map<int64_t, std::optional<double>> values;
  curve_.bind(1, trial);
  while (curve_.step()) {
    StepReport report;
    report.metrics = decode_metrics(curve_.text(1));
    values[curve_.integer(0)] = objective_value(objective, report);
  }
  int64_t best_step = 0;
  std::optional<double> best;
  for (const auto& [step, value] : values) {
    if (value && (!best || *value > *best)) {
      best = value;
      best_step = step;
    }
  }
  set_ends_.bind(1, trial);
  set_ends_.bind(2, values.empty() ? int64_t{0} : values.rbegin()->first);
  set_ends_.bind(3, best_step);
  set_ends_.bind(4, best ? Cell(*best) : Cell());
  set_ends_.run();
}

}  // namespace dtune
