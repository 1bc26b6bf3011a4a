#include "dtune/report/optuna_storage.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/base/json.h"
#include "dtune/store/sqlite_database.h"

namespace dtune {
namespace {

constexpr int64_t kOptunaSchemaVersion = 12;
constexpr uint64_t kMostOfJournal = uint64_t{1} << 30;

constexpr OptunaState kOptunaStates[] = {{0, "RUNNING"},
                                         {1, "COMPLETE"},
                                         {2, "PRUNED"},
                                         {3, "FAIL"},
                                         {4, "WAITING"}};

void check_schema(Database& database) {
  Statement tables(database,
                   "SELECT count(*) FROM sqlite_master WHERE type = 'table' "
                   "AND name IN ('version_info', 'studies', 'trials')");
  if (!tables.step() || tables.integer(0) != 3) {
    throw Error(
        ErrorKind::data,
        fmt::format("{}: is not an Optuna storage (name the SQLite file "
                    "or journal of its storage)",
                    database.path().string()));
  }
  const int64_t version =
      database.query_number("SELECT schema_version FROM version_info");
  if (version == kOptunaSchemaVersion) return;
  throw Error(ErrorKind::data,
              fmt::format("{}: has schema {} of Optuna, only {} can be read "
                          "(optuna storage upgrade --storage sqlite:///{})",
                          database.path().string(), version,
                          kOptunaSchemaVersion, database.path().string()));
}

// The first name of a JSON list of names, or "".
std::string first_name(const std::string& json) {
  const auto names = try_parse_json(json);
  const bool known = names.is_array() && !names.empty() && names[0].is_string();
  return known ? names[0].get<std::string>() : "";
}

double number_or_nan(const Statement& row, int column) {
  return row.null(column) ? std::nan("") : row.real(column);
}

// Trials of one study by their id, filled table by table.
class TrialReader {
 public:
  TrialReader(Database& database, int64_t study)
      : database_(database), study_(study) {}

  std::vector<OptunaTrial> read() {
    read_trials();
    read_parameters();
    read_steps();
    read_values();
    read_kinds();
    std::vector<OptunaTrial> trials;
    for (auto& [id, trial] : trials_) trials.push_back(std::move(trial));
    std::sort(trials.begin(), trials.end(),
              [](const OptunaTrial& a, const OptunaTrial& b) {
                return a.number < b.number;
              });
    return trials;
  }

 private:
  // Rows of a table, joined with the study's trials.
  Statement rows(const char* columns, const char* table, const char* more) {
    Statement statement(
        database_, fmt::format("SELECT t.trial_id, {} FROM {} JOIN trials t "
                               "USING (trial_id) WHERE t.study_id = ? {}",
                               columns, table, more));
    statement.bind(1, study_);
    return statement;
  }

  void read_trials() {
    Statement row(database_,
                  "SELECT trial_id, number, state FROM trials WHERE "
                  "study_id = ? ORDER BY trial_id");
    row.bind(1, study_);
    while (row.step()) {
      OptunaTrial& trial = trials_[row.integer(0)];
      trial.number = row.integer(1);
      trial.state = optuna_state(row.text(2));
    }
  }

  void read_parameters() {
    Statement row = rows("param_name, param_value, distribution_json",
                         "trial_params", "ORDER BY param_id");
    while (row.step()) {
      trials_[row.integer(0)].parameters.push_back(
          {row.text(1), number_or_nan(row, 2), row.text(3)});
    }
  }

  void read_steps() {
    Statement row = rows("step, intermediate_value",
                         "trial_intermediate_values", "ORDER BY step");
    while (row.step()) {
      trials_[row.integer(0)].steps.emplace_back(
          static_cast<int>(row.integer(1)), number_or_nan(row, 2));
    }
  }

  void read_values() {
    Statement row = rows("value", "trial_values", "AND objective = 0");
    while (row.step()) {
      if (!row.null(1)) trials_[row.integer(0)].value = row.real(1);
    }
  }

  void read_kinds() {
    Statement row = rows("key, value_json", "trial_user_attributes",
                         fmt::format("AND key = '{}'", kOptunaKind).c_str());
    while (row.step()) {
      trials_[row.integer(0)].attributes[row.text(1)] = row.text(2);
    }
  }

  Database& database_;
  const int64_t study_;
  std::map<int64_t, OptunaTrial> trials_;
};

OptunaStudy read_study(Database& database, int64_t id, std::string name) {
  OptunaStudy study;
  study.name = std::move(name);
  Statement direction(database,
                      "SELECT direction FROM study_directions WHERE study_id = "
                      "? ORDER BY objective");
  direction.bind(1, id);
  while (direction.step()) study.directions.push_back(direction.text(0));
  Statement metric(database,
                   "SELECT value_json FROM study_system_attributes WHERE "
                   "study_id = ? AND key = 'study:metric_names'");
  metric.bind(1, id);
  if (metric.step()) study.metric = first_name(metric.text(0));
  study.trials = TrialReader(database, id).read();
  return study;
}

std::vector<OptunaStudy> read_optuna_database(
    const std::filesystem::path& path) {
  Database database(path, DatabaseAccess::read);
  check_schema(database);
  std::vector<OptunaStudy> studies;
  Statement row(database,
                "SELECT study_id, study_name FROM studies ORDER BY study_id");
  while (row.step()) {
    studies.push_back(read_study(database, row.integer(0), row.text(1)));
  }
  return studies;
}

}  // namespace

OptunaState optuna_state(int64_t number) {
  for (const OptunaState& state : kOptunaStates) {
    if (state.number == number) return state;
  }
  return kOptunaStates[3];
}

OptunaState optuna_state(const std::string& name) {
  for (const OptunaState& state : kOptunaStates) {
    if (state.name == name) return state;
  }
  return kOptunaStates[3];
}

std::vector<OptunaStudy> read_optuna(const std::filesystem::path& path) {
  const std::string text = read_file(path, kMostOfJournal);
  if (text.starts_with("SQLite format 3")) return read_optuna_database(path);
  return read_optuna_journal(text, path.string());
}

}  // namespace dtune
