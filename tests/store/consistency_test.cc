// Databases that another program has edited: they are refused in words, and
// what is not refused keeps the promises of Study and Trial.
#include "dtune/store/consistency.h"

#include "store/records.h"
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "dtune/base/file.h"
#include "dtune/base/random.h"
#include "dtune/store/sqlite_database.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;
using test::make_report;
using test::make_study;
using test::make_trial;

constexpr int kTrials = 3;

void put_records(TrialStore& store, TrialId id) {
  Trial trial = make_trial(id);
  trial.kind = TrialKind::search;
  store.put_trial(trial);
  store.put_event(
      {id, 1, TrialState::running, Reason::assigned, "", 5, 0, 0, 1, 0});
  Decision decision{id, id, "start", 0, "why", 6};
  decision.after_report = 0;
  decision.session = 1;
  store.put_decision(decision);
  for (int step = 1; step <= 3; ++step) {
    store.put_report(id, 1, make_report(step, 0.5), nullptr);
  }
}

void make_consistent(const fs::path& path) {
  const auto store = open_sqlite_store(path, StoreMode::create_or_open);
  StudyRow row = make_study();
  row.final_json = R"({"best":1,"final_trial":2,"step":3})";
  store->put_study(row);
  store->put_session({1, "study: a\n", 40, 1.5, 7, 99});
  for (TrialId id = 1; id <= kTrials; ++id) put_records(*store, id);
  store->flush();
}

void check_promises(const std::vector<Trial>& trials) {
  for (size_t i = 0; i < trials.size(); ++i) {
    REQUIRE(trials[i].id == static_cast<TrialId>(i) + 1);
    for (size_t k = 0; k < trials[i].curve.size(); ++k) {
      REQUIRE(trials[i].curve[k].step == static_cast<int>(k) + 1);
    }
  }
}

// Everything that a command may load. True: it was refused.
bool is_refused(const fs::path& path, StoreMode mode) {
  try {
    const auto store = open_sqlite_store(path, mode);
    if (const auto row = store->load_study()) {
      REQUIRE(row->horizon >= 1);
      REQUIRE(row->budget_steps >= 0);
    }
    check_promises(store->load_trials());
    store->load_trials(CurvePart::ends);
    store->load_events(0);
    store->load_decisions();
    store->load_records();
    return false;
  } catch (const Error& error) {
    CAPTURE(std::string(error.what()));
    CHECK(std::string(error.what()).starts_with(path.string() + ": "));
    const bool said =
        error.kind() == ErrorKind::data || error.kind() == ErrorKind::store;
    CHECK(said);
    return true;
  }
}

// False: SQLite would not have it.
bool edit(const fs::path& path, const std::string& sql) {
  Database database(path, DatabaseAccess::write);
  try {
    database.execute(sql);
    return true;
  } catch (const SqliteError&) {
    return false;
  }
}

}  // namespace

TEST_CASE("a database that is as dtune wrote it is not refused") {
  const TemporaryDirectory folder;
  make_consistent(folder.path() / "study.db");
  CHECK_FALSE(is_refused(folder.path() / "study.db", StoreMode::read_only));
  CHECK_FALSE(is_refused(folder.path() / "study.db", StoreMode::open));
}

TEST_CASE("impossible rows are refused with a message") {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "study.db";
  for (const char* sql :
       {"UPDATE report SET step = 2147483648 WHERE step = 2",
        "UPDATE report SET step = 9 WHERE step = 3",
        "DELETE FROM report WHERE step = 2",
        "DELETE FROM report WHERE step = 3",
        "DELETE FROM report WHERE trial = 3",
        "DELETE FROM report",
        "UPDATE trial SET last_step = 2 WHERE id = 3",
        "UPDATE trial SET best_value = 0.6 WHERE id = 3",
        "UPDATE trial SET best_value = NULL WHERE id = 3",
        "UPDATE report SET metrics = '[]'",
        "UPDATE report SET metrics = '{}'",
        "UPDATE report SET seconds = 9e999",
        "UPDATE report SET seconds = -1",
        "UPDATE report SET sequence = 9223372036854775807",
        "INSERT INTO report VALUES (77, 1, 1, '{}', 1, 1, 0, 99)",
        "DELETE FROM session",
        "UPDATE session SET number = 5",
        "UPDATE session SET budget_trials = -1",
        "UPDATE trial SET unit = 'x'",
        "UPDATE trial SET id = 99 WHERE id = 3",
        "DELETE FROM trial WHERE id = 2",
        "UPDATE trial SET attempt = -5",
        "UPDATE trial SET attempt = 2147483648",
        "UPDATE trial SET target_step = 2147483647",
        "UPDATE trial SET state = 'levitating'",
        "UPDATE trial SET slot = -7",
        "UPDATE trial SET started_ms = -9223372036854775808",
        "UPDATE study SET budget_steps = -5",
        "UPDATE study SET budget_trials = 9223372036854775807",
        "UPDATE study SET horizon = 2",
        "UPDATE study SET horizon = 0",
        "UPDATE study SET searched_seconds = 9e999",
        "UPDATE study SET created_ms = -1",
        "UPDATE study SET sessions = -1",
        R"(UPDATE study SET final_json = '{"best":99}')",
        R"(UPDATE study SET final_json = '{"best":1,"final_trial":-1}')",
        "UPDATE study SET final_json = '[]'",
        "UPDATE study SET metric = 'nothing'",
        "UPDATE decision SET number = 7 WHERE number = 2",
        "UPDATE decision SET trial = 99",
        "UPDATE decision SET step = -1",
        "UPDATE event SET trial = -1",
        "UPDATE event SET session = 9",
        "UPDATE event SET after_report = -7",
        "PRAGMA user_version = 1",
        "PRAGMA user_version = 0",
        "PRAGMA user_version = -1",
        "DROP TABLE decision",
        "ALTER TABLE report DROP COLUMN sequence",
        "CREATE TRIGGER t AFTER INSERT ON event BEGIN DELETE FROM trial; "
        "END"}) {
    CAPTURE(std::string(sql));
    fs::remove(path);
    make_consistent(path);
    REQUIRE(edit(path, sql));
    CHECK(is_refused(path, StoreMode::read_only));
    CHECK(is_refused(path, StoreMode::open));
  }
}

TEST_CASE("views, indices and tables beside those of a study are kept") {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "study.db";
  make_consistent(path);
  REQUIRE(edit(path,
               "CREATE VIEW best AS SELECT max(best_value) FROM trial; "
               "CREATE INDEX mine ON report(seconds); "
               "CREATE TABLE note (text TEXT)"));
  CHECK_FALSE(is_refused(path, StoreMode::open));
}

TEST_CASE("random edits are refused or harmless") {
  constexpr int kEdits = 150;
  const TemporaryDirectory folder;
  const fs::path whole = folder.path() / "whole.db";
  make_consistent(whole);
  const std::vector<std::string> values = {"-1",
                                           "0",
                                           "1",
                                           "2",
                                           "4",
                                           "99",
                                           "-7",
                                           "''",
                                           "'[]'",
                                           "'{}'",
                                           "9e999",
                                           "0.5",
                                           "'x'",
                                           "2147483648",
                                           "9223372036854775807",
                                           "'{\"val_accuracy\":\"nan\"}'",
                                           "'[7]'",
                                           "-9223372036854775808"};
  std::vector<std::string> columns;  // "table SET column"
  {
    Database database(whole, DatabaseAccess::read);
    Statement rows(database,
                   "SELECT m.name, c.name FROM sqlite_schema AS m "
                   "JOIN pragma_table_info(m.name) AS c WHERE m.type = 'table' "
                   "AND m.name <> 'schema_history' ORDER BY 1, 2");
    while (rows.step()) {
      columns.push_back(
          fmt::format("{} SET \"{}\"", rows.text(0), rows.text(1)));
    }
  }
  REQUIRE(columns.size() > 60);
  const fs::path path = folder.path() / "study.db";
  int refused = 0;
  for (uint64_t i = 0; i < kEdits; ++i) {
    const std::string sql = fmt::format(
        "UPDATE {} = {}", columns[mix_seed({15, i, 1}) % columns.size()],
        values[mix_seed({15, i, 2}) % values.size()]);
    CAPTURE(sql);
    fs::copy_file(whole, path, fs::copy_options::overwrite_existing);
    if (!edit(path, sql)) continue;
    refused += is_refused(path, StoreMode::read_only) ? 1 : 0;
    fs::remove(path.string() + "-wal");
  }
  CHECK(refused > 20);
}

TEST_CASE("a trial outside the unit cube is refused") {
  Parameter rate;
  rate.name = rate.key = "lr";
  const SearchSpace space(std::vector<Parameter>{rate});
  Trial trial;
  trial.id = 1;
  for (const std::vector<double>& unit :
       {std::vector<double>{},
        {1.5},
        {-0.1},
        {0.5, 0.5},
        {std::numeric_limits<double>::quiet_NaN()}}) {
    trial.unit = unit;
    CHECK_THROWS_AS(check_units(space, {trial}), Error);
  }
  trial.unit = {0.5};
  CHECK_NOTHROW(check_units(space, {trial}));
}

}  // namespace dtune
