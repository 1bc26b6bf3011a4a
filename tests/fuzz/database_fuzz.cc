// A study's database that another program has edited: three bytes of input are
// one edit, of a column in a row. Whatever they are, it is loaded or refused in
// words, and what is loaded keeps the promises of store/consistency.h.
#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/store/sqlite_database.h"
#include "dtune/store/trial_store.h"

namespace {

namespace fs = std::filesystem;
using namespace dtune;  // NOLINT: a fuzz target

constexpr size_t kMostEdits = 8;
struct Table {
  const char* name;
  const char* key;  // a whole number
};
constexpr std::array<Table, 6> kTables = {{{"study", "one"},
                                           {"trial", "id"},
                                           {"report", "step"},
                                           {"event", "number"},
                                           {"decision", "number"},
                                           {"session", "number"}}};
constexpr std::array kValues = {"0",
                                "1",
                                "-1",
                                "2",
                                "3",
                                "99",
                                "''",
                                "'[]'",
                                "'{}'",
                                "'x'",
                                "0.5",
                                "9e999",
                                "-9e999",
                                "2147483648",
                                "9223372036854775807",
                                "-9223372036854775808",
                                "'running'",
                                "'{\"best\":9}'",
                                "'[0.5]'",
                                "'{\"a\":\"nan\"}'"};

void make_study(const fs::path& path) {
  const auto store = open_sqlite_store(path, StoreMode::create_or_open);
  StudyRow row;
  row.id = "fuzz";
  row.horizon = 4;
  row.metric = "a";
  row.sessions = 1;
  row.final_json = R"({"best":1})";
  store->put_study(row);
  store->put_session({1, "study: a\n", 3, 0, 0, 1});
  int64_t place = 0;
  for (TrialId id = 1; id <= 3; ++id) {
    Trial trial;
    trial.id = id;
    trial.unit = {0.5};
    trial.target_step = 3;
    store->put_trial(trial);
    store->put_event({id, 1, TrialState::running, Reason::assigned, "", 1,
                      place, id - 1, 1, 0});
    store->put_decision({id, id, "start", 0, "", 1});
    for (int step = 1; step <= 3; ++step) {
      StepReport report;
      report.step = step;
      report.metrics = {{"a", 0.1 * step}};
      report.sequence = ++place;
      store->put_report(id, 1, report, {});
    }
  }
  store->flush();
}

struct Column {
  Table table;
  std::string name;
};

struct Place {
  TemporaryDirectory folder;
  fs::path whole = folder.path() / "whole.db";
  fs::path edited = folder.path() / "edited.db";
  std::vector<Column> columns;

  Place() {
    make_study(whole);
    Database database(whole, DatabaseAccess::read);
    for (const Table& table : kTables) {
      Statement rows(database, fmt::format("SELECT name FROM "
                                           "pragma_table_info('{}')",
                                           table.name));
      while (rows.step()) columns.push_back({table, rows.text(0)});
    }
  }
};

void edit(const Place& place, std::span<const uint8_t> bytes) {
  fs::copy_file(place.whole, place.edited,
                fs::copy_options::overwrite_existing);
  Database database(place.edited, DatabaseAccess::write);
  for (size_t i = 0; i + 2 < bytes.size() && i < 3 * kMostEdits; i += 3) {
    const Column& column = place.columns[bytes[i] % place.columns.size()];
    try {
      database.execute(fmt::format(
          "UPDATE {} SET \"{}\" = {} WHERE {} % 4 = {}", column.table.name,
          column.name, kValues[bytes[i + 1] % kValues.size()], column.table.key,
          bytes[i + 2] % 4));
    } catch (const SqliteError&) {
      // A constraint.
    }
  }
}

void load(const fs::path& path) {
  const auto store = open_sqlite_store(path, StoreMode::read_only);
  store->load_study();
  const std::vector<Trial> trials = store->load_trials();
  for (size_t i = 0; i < trials.size(); ++i) {
    DTUNE_CHECK(trials[i].id == static_cast<TrialId>(i) + 1);
    for (size_t k = 0; k < trials[i].curve.size(); ++k) {
      DTUNE_CHECK(trials[i].curve[k].step == static_cast<int>(k) + 1);
    }
  }
  store->load_trials(CurvePart::ends);
  store->load_events(0);
  store->load_decisions();
  store->load_records();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Place place;
  edit(place, {data, size});
  try {
    load(place.edited);
  } catch (const Error& error) {
    const bool said =
        error.kind() == ErrorKind::data || error.kind() == ErrorKind::store;
    if (!said) throw;
  }
  return 0;
}
