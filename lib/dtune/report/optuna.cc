#include "dtune/report/optuna.h"

#include <cmath>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/json.h"
#include "dtune/report/optuna_schema.h"
#include "dtune/report/optuna_terms.h"
#include "dtune/store/sqlite_database.h"

namespace dtune {
namespace {

using nlohmann::ordered_json;

bool maximizes(const Study& study) {
  return study.recipe.objective.goal == Goal::maximize;
}

std::string metric_names_json(const Study& study) {
  return json_text(ordered_json::array({study.recipe.objective.metric}));
}

// One statement, used again for every row.
class Insert {
 public:
  Insert(Database& database, const char* sql) : statement_(database, sql) {}

  void operator()(const std::vector<Cell>& cells) {
    for (size_t i = 0; i < cells.size(); ++i) {
      statement_.bind(static_cast<int>(i) + 1, cells[i]);
    }
    statement_.run();
  }

 private:
  Statement statement_;
};

void put_study(const Study& study, const StudyFacts& facts,
               Database& database) {
  Insert(database, "INSERT INTO studies VALUES (1, ?)")({study.recipe.study});
  Insert(database, "INSERT INTO study_directions VALUES (1, ?, 1, 0)")(
      {std::string(maximizes(study) ? "MAXIMIZE" : "MINIMIZE")});
  Insert(database,
         "INSERT INTO study_system_attributes (study_id, key, value_json) "
         "VALUES (1, 'study:metric_names', ?)")({metric_names_json(study)});
  Insert attribute(database,
                   "INSERT INTO study_user_attributes (study_id, key, "
                   "value_json) VALUES (1, ?, ?)");
  for (const auto& [key, value] : optuna_attributes(study, facts)) {
    attribute({key, value});
  }
}

const char* kind_of_number(double value) {
  if (std::isfinite(value)) return "FINITE";
  if (std::isnan(value)) return "NAN";
  return value > 0 ? "INF_POS" : "INF_NEG";
}

// Writes trials, row by row.
class TrialRows {
 public:
  explicit TrialRows(Database& database)
      : trial_(database, "INSERT INTO trials VALUES (?, ?, 1, ?, ?, ?)"),
        parameter_(database,
                   "INSERT INTO trial_params (trial_id, param_name, "
                   "param_value, distribution_json) VALUES (?, ?, ?, ?)"),
        step_(database,
              "INSERT INTO trial_intermediate_values (trial_id, step, "
              "intermediate_value, intermediate_value_type) "
              "VALUES (?, ?, ?, ?)"),
        attribute_(database,
                   "INSERT INTO trial_user_attributes (trial_id, key, "
                   "value_json) VALUES (?, ?, ?)"),
        value_(database,
               "INSERT INTO trial_values (trial_id, objective, value, "
               "value_type) VALUES (?, 0, ?, 'FINITE')") {}

  void put(const OptunaTrial& one) {
    const int64_t id = one.number + 1;
    const Cell completed = one.completed.empty() ? Cell() : Cell(one.completed);
    trial_(
        {id, one.number, std::string(one.state.name), one.started, completed});
    for (const OptunaParameter& parameter : one.parameters) {
      parameter_({id, parameter.name, parameter.value, parameter.distribution});
    }
    for (const auto& [step, value] : one.steps) {
      const Cell number = std::isfinite(value) ? Cell(value) : Cell();
      step_({id, int64_t{step}, number, std::string(kind_of_number(value))});
    }
    for (const auto& [key, value] : one.attributes) {
      attribute_({id, key, value});
    }
    if (one.value) value_({id, *one.value});
  }

 private:
  Insert trial_;
  Insert parameter_;
  Insert step_;
  Insert attribute_;
  Insert value_;
};

// "2026-11-22T10:00:00.000000+00:00".
std::string iso_time(std::string text) {
  if (text.empty()) return text;
  text[10] = 'T';
  return text + "+00:00";
}

// JournalOperation of Optuna.
enum class Operation {
  create_study = 0,
  set_study_user_attribute = 2,
  set_study_system_attribute = 3,
  create_trial = 4,
  set_parameter = 5,
  set_state = 6,
  set_step = 7,
  set_user_attribute = 8,
};

constexpr const char* kWorker = R"("worker_id":"dtune")";

// A line under construction: values are JSON.
class JournalLine {
 public:
  explicit JournalLine(Operation operation)
      : text_(fmt::format(R"({{"op_code":{},{})", static_cast<int>(operation),
                          kWorker)) {}

  JournalLine& add(const char* key, const std::string& json) {
    text_ += fmt::format(R"(,"{}":{})", key, json);
    return *this;
  }
  JournalLine& text(const char* key, const std::string& value) {
    return add(key, quoted(value));
  }
  std::string done() const { return text_ + "}\n"; }

  static std::string quoted(const std::string& value) {
    return json_text(ordered_json(value));
  }

 private:
  std::string text_;
};

// NaN and the infinities as Python's json module writes and reads them.
std::string journal_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return json_text(ordered_json(value));
}

std::string journal_trial(const OptunaTrial& one) {
  const auto about = [&](Operation operation) {
    return JournalLine(operation).add("trial_id", std::to_string(one.number));
  };
  std::string lines = JournalLine(Operation::create_trial)
                          .add("study_id", "0")
                          .text("datetime_start", iso_time(one.started))
                          .done();
  for (const OptunaParameter& parameter : one.parameters) {
    lines += about(Operation::set_parameter)
                 .text("param_name", parameter.name)
                 .add("param_value_internal", journal_number(parameter.value))
                 .text("distribution", parameter.distribution)
                 .done();
  }
  for (const auto& [step, value] : one.steps) {
    lines += about(Operation::set_step)
                 .add("step", std::to_string(step))
                 .add("intermediate_value", journal_number(value))
                 .done();
  }
  for (const auto& [key, value] : one.attributes) {
    lines += about(Operation::set_user_attribute)
                 .add("user_attr", fmt::format(R"({{"{}":{}}})", key, value))
                 .done();
  }
  if (one.completed.empty()) return lines;
  const std::string values =
      one.value ? "[" + journal_number(*one.value) + "]" : "null";
  return lines + about(Operation::set_state)
                     .add("state", std::to_string(one.state.number))
                     .add("values", values)
                     .text("datetime_complete", iso_time(one.completed))
                     .done();
}

bool is_own_line(const std::string& line) {
  return line.find(kWorker) != std::string::npos;
}

// Every trial of an export says its state; attributes of others may be notes.
constexpr const char* kAdded = R"sql(
  SELECT (SELECT count(*) FROM trials WHERE trial_id NOT IN (SELECT trial_id
            FROM trial_user_attributes WHERE key = 'dtune:state'))
       + (SELECT count(*) FROM trial_user_attributes
            WHERE key NOT LIKE 'dtune:%')
       + (SELECT count(*) FROM trial_system_attributes)
       + (SELECT count(*) FROM study_user_attributes
            WHERE key NOT LIKE 'dtune:%')
       + (SELECT count(*) FROM study_system_attributes
            WHERE key <> 'study:metric_names'))sql";

OptunaFile look_at_optuna_database(const std::filesystem::path& path) {
  try {
    Database database(path, DatabaseAccess::read);
    const int64_t foreign = database.query_number(
        "SELECT count(*) FROM studies WHERE study_id NOT IN (SELECT study_id "
        "FROM study_user_attributes WHERE key = 'dtune:id')");
    if (foreign > 0) return OptunaFile::foreign;
    return database.query_number(kAdded) > 0 ? OptunaFile::continued
                                             : OptunaFile::exported;
  } catch (const Error&) {  // of no such tables
    return OptunaFile::foreign;
  }
}

}  // namespace

OptunaFile look_at_optuna_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  if (!is_own_line(line)) return look_at_optuna_database(path);
  while (std::getline(file, line)) {
    if (!is_own_line(line)) return OptunaFile::continued;
  }
  return OptunaFile::exported;
}

void write_optuna_database(const Study& study, const StudyFacts& facts,
                           const std::filesystem::path& path) {
  std::filesystem::remove(path);
  Database database(path, DatabaseAccess::create);
  database.execute("BEGIN");
  database.execute(kOptunaSchema);
  put_study(study, facts, database);
  TrialRows rows(database);
  for (const Trial& trial : study.trials) rows.put(optuna_trial(study, trial));
  database.execute("COMMIT");
}

std::string optuna_journal(const Study& study, const StudyFacts& facts) {
  std::string lines = JournalLine(Operation::create_study)
                          .text("study_name", study.recipe.study)
                          .add("directions", maximizes(study) ? "[2]" : "[1]")
                          .done();
  lines += JournalLine(Operation::set_study_system_attribute)
               .add("study_id", "0")
               .add("system_attr", fmt::format(R"({{"study:metric_names":{}}})",
                                               metric_names_json(study)))
               .done();
  for (const auto& [key, value] : optuna_attributes(study, facts)) {
    lines += JournalLine(Operation::set_study_user_attribute)
                 .add("study_id", "0")
                 .add("user_attr", fmt::format(R"({{"{}":{}}})", key, value))
                 .done();
  }
  for (const Trial& trial : study.trials) {
    lines += journal_trial(optuna_trial(study, trial));
  }
  return lines;
}

}  // namespace dtune
