#include "dtune/store/schema.h"

#include <map>
#include <mutex>
#include <string>

#include <fmt/format.h>

#include "dtune/base/clock.h"

namespace dtune {
namespace {

constexpr const char* kVersion1 = R"sql(
CREATE TABLE study (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  recipe_yaml TEXT NOT NULL,
  recipe_hash TEXT NOT NULL,
  recipe_path TEXT NOT NULL,
  state TEXT NOT NULL,
  horizon INTEGER NOT NULL,
  searched_seconds REAL NOT NULL,
  created_ms INTEGER NOT NULL,
  budget_trials INTEGER NOT NULL,
  budget_seconds REAL NOT NULL,
  budget_steps INTEGER NOT NULL,
  final_json TEXT NOT NULL,
  metric TEXT NOT NULL,
  goal TEXT NOT NULL CHECK (goal IN ('maximize', 'minimize'))
) STRICT;

CREATE TABLE trial (
  id INTEGER PRIMARY KEY CHECK (id > 0),
  kind TEXT NOT NULL CHECK (kind IN ('search', 'final')),
  point TEXT NOT NULL,
  unit TEXT NOT NULL,
  seed INTEGER NOT NULL,
  state TEXT NOT NULL,
  reason TEXT NOT NULL,
  detail TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  target_step INTEGER NOT NULL,
  node TEXT NOT NULL,
  slot INTEGER NOT NULL,
  created_ms INTEGER NOT NULL,
  started_ms INTEGER NOT NULL,
  ended_ms INTEGER NOT NULL,
  checkpoint TEXT NOT NULL,
  checkpoint_step INTEGER NOT NULL,
  last_step INTEGER NOT NULL DEFAULT 0,
  best_step INTEGER NOT NULL DEFAULT 0,
  best_value REAL
) STRICT;

CREATE TABLE report (
  trial INTEGER NOT NULL REFERENCES trial(id),
  step INTEGER NOT NULL CHECK (step > 0),
  attempt INTEGER NOT NULL,
  metrics TEXT NOT NULL,
  seconds REAL NOT NULL,
  checkpoint_seconds REAL NOT NULL,
  last INTEGER NOT NULL,
  PRIMARY KEY (trial, step, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
  number INTEGER PRIMARY KEY,
  trial INTEGER NOT NULL REFERENCES trial(id),
  attempt INTEGER NOT NULL,
  state TEXT NOT NULL,
  reason TEXT NOT NULL,
  detail TEXT NOT NULL,
  wall_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX event_trial ON event(trial);

CREATE TABLE decision (
  number INTEGER PRIMARY KEY,
  trial INTEGER NOT NULL,
  action TEXT NOT NULL,
  step INTEGER NOT NULL,
  why TEXT NOT NULL,
  wall_ms INTEGER NOT NULL
) STRICT;
)sql";

// The order in which things happened, for replays. What is there already has
// its reports numbered by trial and step; when decisions were taken is lost.
constexpr const char* kVersion2 = R"sql(
ALTER TABLE study ADD COLUMN sessions INTEGER NOT NULL DEFAULT 0;

ALTER TABLE report ADD COLUMN sequence INTEGER NOT NULL DEFAULT 0;
UPDATE report SET sequence = numbered.place FROM (
  SELECT trial, step, attempt,
         row_number() OVER (ORDER BY trial, step, attempt) AS place
  FROM report) AS numbered
WHERE report.trial = numbered.trial AND report.step = numbered.step
  AND report.attempt = numbered.attempt;

ALTER TABLE event ADD COLUMN after_report INTEGER NOT NULL DEFAULT -1;
ALTER TABLE event ADD COLUMN after_decision INTEGER NOT NULL DEFAULT -1;
ALTER TABLE event ADD COLUMN session INTEGER NOT NULL DEFAULT 0;
ALTER TABLE event ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;

ALTER TABLE decision ADD COLUMN maker TEXT NOT NULL DEFAULT 'unknown';
ALTER TABLE decision ADD COLUMN target_step INTEGER NOT NULL DEFAULT 0;
ALTER TABLE decision ADD COLUMN after_report INTEGER NOT NULL DEFAULT -1;
ALTER TABLE decision ADD COLUMN session INTEGER NOT NULL DEFAULT 0;
ALTER TABLE decision ADD COLUMN searched_seconds REAL NOT NULL DEFAULT 0;

CREATE TABLE session (
  number INTEGER PRIMARY KEY,
  recipe_yaml TEXT NOT NULL,
  budget_trials INTEGER NOT NULL,
  budget_seconds REAL NOT NULL,
  budget_steps INTEGER NOT NULL,
  started_ms INTEGER NOT NULL
) STRICT;
)sql";

// Where a trial was when its state changed, what the tuner went by when it
// decided, what the ranks did. None of it is known of what is there already.
constexpr const char* kVersion3 = R"sql(
ALTER TABLE event ADD COLUMN node TEXT NOT NULL DEFAULT '';
ALTER TABLE event ADD COLUMN slot INTEGER NOT NULL DEFAULT -1;

ALTER TABLE decision ADD COLUMN weights TEXT NOT NULL DEFAULT '{}';
ALTER TABLE decision ADD COLUMN forecast_step INTEGER;
ALTER TABLE decision ADD COLUMN forecast_mean REAL;
ALTER TABLE decision ADD COLUMN forecast_low REAL;
ALTER TABLE decision ADD COLUMN forecast_high REAL;

CREATE TABLE rank_round (
  trial INTEGER NOT NULL REFERENCES trial(id),
  attempt INTEGER NOT NULL,
  round INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  node TEXT NOT NULL,
  wall_ms INTEGER NOT NULL,
  samples INTEGER NOT NULL,
  compute_seconds REAL NOT NULL,
  wait_seconds REAL NOT NULL,
  late INTEGER NOT NULL,
  share REAL NOT NULL,
  present INTEGER NOT NULL,
  PRIMARY KEY (trial, attempt, round, rank)
) STRICT, WITHOUT ROWID;
)sql";

// A training of a candidate with another seed: it is no part of the search, so
// that its kind is 'final', and `repeats` is 1.
constexpr const char* kVersion4 = R"sql(
ALTER TABLE trial ADD COLUMN repeats INTEGER NOT NULL DEFAULT 0
  CHECK (repeats IN (0, 1));
)sql";

// What every version has, whatever else it holds.
constexpr const char* kHistory = R"sql(
CREATE TABLE IF NOT EXISTS schema_history (
  version INTEGER PRIMARY KEY,
  dtune_version TEXT NOT NULL,
  applied_ms INTEGER NOT NULL
) STRICT;
)sql";

constexpr Migration kMigrations[] = {
    {1, kVersion1}, {2, kVersion2}, {3, kVersion3}, {4, kVersion4}};

int64_t version_of(Database& database) {
  return database.query_number("PRAGMA user_version");
}

std::string writer_of(Database& database) {
  try {
    return database.query_text(
        "SELECT dtune_version FROM schema_history ORDER BY version DESC");
  } catch (const Error&) {
    return "";  // a version that keeps it elsewhere
  }
}

[[noreturn]] void refuse_newer(Database& database, int64_t found,
                               int64_t known) {
  const std::string writer = writer_of(database);
  throw Error(ErrorKind::store,
              fmt::format("{}: was written by a newer dtune{}{} (its schema is "
                          "version {}, this dtune, {}, knows {}: use the newer "
                          "one)",
                          database.path().string(), writer.empty() ? "" : ", ",
                          writer, found, DTUNE_VERSION, known));
}

void apply(Database& database, const Migration& migration) {
  database.execute("BEGIN IMMEDIATE");
  try {
    database.execute(kHistory);
    database.execute(migration.sql);
    database.execute(fmt::format("PRAGMA application_id = {}", kApplicationId));
    database.execute(
        fmt::format("PRAGMA user_version = {}", migration.version));
    Statement note(database, "INSERT INTO schema_history VALUES (?, ?, ?)");
    note.bind(1, migration.version);
    note.bind(2, std::string(DTUNE_VERSION));
    note.bind(3, system_clock().wall_ms());
    note.run();
    database.execute("COMMIT");
  } catch (...) {
    if (!database.autocommit()) database.execute("ROLLBACK");
    throw;
  }
}

// Name and definition, without white space, of each table and index.
using Definitions = std::map<std::string, std::string>;

Definitions definitions(Database& database) {
  Definitions found;
  Statement rows(database,
                 "SELECT name, sql FROM sqlite_schema "
                 "WHERE type IN ('table', 'index') AND sql IS NOT NULL");
  while (rows.step()) {
    std::string& text = found[rows.text(0)];
    text = rows.text(1);
    std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  }
  return found;
}

// What the migrations up to a version make. Kept, since making it takes longer
// than all else that opens a database.
const Definitions& definitions_of(std::span<const Migration> migrations,
                                  int64_t version) {
  static std::mutex mutex;
  static std::map<std::string, Definitions> made;
  std::string sql = version > 0 ? kHistory : "";
  for (const Migration& migration : migrations) {
    if (migration.version <= version) sql += migration.sql;
  }
  const std::lock_guard lock(mutex);
  const auto known = made.find(sql);
  if (known != made.end()) return known->second;
  Database model(":memory:", DatabaseAccess::create);
  model.execute(sql);
  return made.emplace(sql, definitions(model)).first->second;
}

}  // namespace

std::span<const Migration> schema_migrations() { return kMigrations; }

DatabaseOwner owner_of(Database& database) {
  const int64_t id = database.query_number("PRAGMA application_id");
  if (id == kApplicationId) return DatabaseOwner::dtune;
  const bool empty =
      database.query_number("SELECT count(*) FROM sqlite_schema") == 0;
  return empty && id == 0 ? DatabaseOwner::none : DatabaseOwner::other_program;
}

void migrate(Database& database, std::span<const Migration> migrations) {
  const int64_t known = migrations.back().version;
  const int64_t found = version_of(database);
  if (found > known) refuse_newer(database, found, known);
  for (const Migration& migration : migrations) {
    if (migration.version > found) apply(database, migration);
  }
}

void check_tables(Database& database, std::span<const Migration> migrations) {
  const int64_t version = version_of(database);
  const int64_t known = migrations.back().version;
  if (version > known) return;
  auto found = definitions(database);
  const Definitions& wanted = definitions_of(migrations, version);
  std::string wrong;
  for (const auto& [name, text] : definitions_of(migrations, known)) {
    const auto place = wanted.find(name);
    const std::string right = place == wanted.end() ? "" : place->second;
    if (found[name] != right) wrong = fmt::format("'{}' differs", name);
  }
  const std::string trigger = database.query_text(
      "SELECT name FROM sqlite_schema WHERE type = 'trigger'");
  if (!trigger.empty()) wrong = fmt::format("there is a trigger '{}'", trigger);
  if (wrong.empty()) return;
  throw Error(ErrorKind::data,
              fmt::format("{}: its tables are not those of a study (version {} "
                          "of the schema): {} (they were changed by another "
                          "program: go on with an earlier copy of the file)",
                          database.path().string(), version, wrong));
}

bool is_older(Database& database, std::span<const Migration> migrations) {
  return version_of(database) < migrations.back().version;
}

void check_version(Database& database, std::span<const Migration> migrations) {
  const int64_t known = migrations.back().version;
  const int64_t found = version_of(database);
  if (found > known) refuse_newer(database, found, known);
  if (found < known) {
    throw Error(
        ErrorKind::store,
        fmt::format("{}: was written by an older dtune (its schema is version "
                    "{}, this dtune needs {}: 'dtune resume' upgrades it)",
                    database.path().string(), found, known));
  }
}

}  // namespace dtune
