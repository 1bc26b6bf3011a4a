#include "dtune/report/optuna_import.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/json.h"
#include "dtune/report/csv.h"

namespace dtune {
namespace {

using OptunaJson = nlohmann::json;

constexpr size_t kLongestName = 64;  // of a study

// Flow text of YAML; JSON's texts are YAML's.
std::string yaml_of(const OptunaJson& json) { return json_text(json); }

// A name as recipes allow it: letters, digits, '_' and '-'.
std::string plain_name(const std::string& name) {
  std::string plain;
  for (const char c : name) {
    const bool good = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                      c == '_' || c == '-';
    plain += good ? c : '_';
  }
  const bool starts_well =
      !plain.empty() && plain[0] != '-' &&
      std::isdigit(static_cast<unsigned char>(plain[0])) == 0;
  return starts_well ? plain : "p" + plain;
}

// What a choice is called in the recipe: null and truths are Python's words.
OptunaJson choice_word(const OptunaJson& choice) {
  if (choice.is_null()) return "None";
  if (choice.is_boolean()) return choice.get<bool>() ? "True" : "False";
  return choice;
}

std::string cell_of(const OptunaJson& word) {
  if (word.is_string()) return word.get<std::string>();
  if (word.is_number_integer()) return json_text(word);
  return word.is_number() ? csv_number(word.get<double>()) : yaml_of(word);
}

// One parameter, over the distributions of all trials.
class ImportedParameter {
 public:
  explicit ImportedParameter(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }

  void widen(const OptunaJson& distribution) {
    const std::string kind = distribution.at("name");
    const OptunaJson& fields = distribution.at("attributes");
    kind_ = kind;
    if (fields.contains("choices")) {
      for (const OptunaJson& choice : fields["choices"]) {
        const OptunaJson word = choice_word(choice);
        if (std::find(choices_.begin(), choices_.end(), word) ==
            choices_.end()) {
          choices_.push_back(word);
        }
      }
      return;
    }
    low_ = std::min(low_, fields.at("low").get<double>());
    high_ = std::max(high_, fields.at("high").get<double>());
    log_ = fields.value("log", false);
    const OptunaJson step =
        fields.contains("step") ? fields["step"] : OptunaJson();
    step_ = step.is_number() ? step.get<double>() : 0;
  }

  // "{ log: [0.0001, 0.1] }"
  std::string yaml() const {
    if (!choices_.empty()) {
      return fmt::format("{{ choice: {} }}", yaml_of(choices_));
    }
    if (low_ == high_) return csv_number(low_);
    const bool whole = is_whole();
    const bool stepped = step_ > 0 && !(whole && step_ == 1);
    return fmt::format("{{ {}: [{}, {}]{}{} }}", word(), csv_number(low_),
                       csv_number(high_), whole && log_ ? ", log: true" : "",
                       stepped ? ", step: " + csv_number(step_) : "");
  }

  // `distribution` is that of the trial.
  std::string cell(double value, const OptunaJson& distribution) const {
    const OptunaJson& fields = distribution.at("attributes");
    if (!fields.contains("choices")) return csv_number(value);
    return cell_of(choice_word(fields["choices"].at(
        static_cast<size_t>(std::llround(std::max(value, 0.0))))));
  }

 private:
  bool is_whole() const { return kind_.starts_with("Int"); }
  const char* word() const {
    if (is_whole()) return "int";
    return log_ ? "log" : "linear";
  }

  std::string name_;
  std::string kind_;
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
  bool log_ = false;
  double step_ = 0;
  OptunaJson choices_ = OptunaJson::array();
};

// Of a study that dtune exported: a final training repeats the best point.
bool is_of_search(const OptunaTrial& trial) {
  const auto kind = trial.attributes.find(kOptunaKind);
  return kind == trial.attributes.end() ||
         try_parse_json(kind->second) == to_string(TrialKind::search);
}

bool has_result(const OptunaTrial& trial) {
  const std::string state = trial.state.name;
  if (state == "COMPLETE") return trial.value && std::isfinite(*trial.value);
  return state == "PRUNED" &&
         std::any_of(trial.steps.begin(), trial.steps.end(),
                     [](const auto& one) { return std::isfinite(one.second); });
}

class Importer {
 public:
  explicit Importer(OptunaStudy study) : study_(std::move(study)) {
    check();
    std::erase_if(study_.trials, [](const OptunaTrial& trial) {
      return !is_of_search(trial);
    });
    metric_ = allowed(study_.metric.empty() ? "value" : study_.metric);
    for (const OptunaTrial& trial : study_.trials) take(trial);
    made_.trials = static_cast<int>(study_.trials.size());
    if (made_.results > 0) return;
    throw Error(ErrorKind::data,
                fmt::format("the study {} of Optuna has no result in {} trials",
                            study_.name, study_.trials.size()));
  }

  OptunaImport make(const std::string& table_file) {
    made_.table = table();
    made_.recipe = recipe(table_file);
    return std::move(made_);
  }

 private:
  void check() const {
    if (study_.directions.size() == 1) return;
    throw Error(ErrorKind::data,
                fmt::format("the study {} of Optuna has {} objectives; a study "
                            "with one can be imported",
                            study_.name, study_.directions.size()));
  }

  std::string allowed(const std::string& name) {
    std::string plain = plain_name(name);
    const std::string line = fmt::format("{} -> {}", name, plain);
    if (plain != name && std::find(made_.renamed.begin(), made_.renamed.end(),
                                   line) == made_.renamed.end()) {
      made_.renamed.push_back(line);
    }
    return plain;
  }

  void take(const OptunaTrial& trial) {
    for (const OptunaParameter& parameter : trial.parameters) {
      parameter_of(parameter.name).widen(parse_json(parameter.distribution));
    }
    if (!has_result(trial)) return;
    ++made_.results;
    for (const auto& [step, value] : trial.steps) {
      first_ = std::min(first_, step);
      last_ = std::max(last_, step);
    }
  }

  ImportedParameter& parameter_of(const std::string& name) {
    const std::string plain = allowed(name);
    for (ImportedParameter& known : parameters_) {
      if (known.name() == plain) return known;
    }
    return parameters_.emplace_back(plain);
  }

  bool has_steps() const { return last_ >= first_; }
  int shift() const { return std::max(0, 1 - first_); }

  std::string table() {
    std::vector<std::string> header = {"trial"};
    if (has_steps()) header.emplace_back("step");
    header.push_back(metric_);
    for (const ImportedParameter& parameter : parameters_) {
      header.push_back("param." + parameter.name());
    }
    std::string text = csv_line(header);
    for (const OptunaTrial& trial : study_.trials) {
      if (has_result(trial)) text += rows(trial);
    }
    return text;
  }

  std::string rows(const OptunaTrial& trial) {
    std::vector<std::pair<int, double>> curve = trial.steps;
    if (curve.empty() && trial.value) curve.emplace_back(last_, *trial.value);
    // Optuna counts what the objective returned, not what it reported.
    if (trial.value && std::string(trial.state.name) == "COMPLETE") {
      curve.back().second = *trial.value;
    }
    std::string text;
    for (const auto& [step, value] : curve) {
      if (!std::isfinite(value)) continue;
      std::vector<std::string> cells = {std::to_string(trial.number)};
      if (has_steps()) cells.push_back(std::to_string(step + shift()));
      cells.push_back(csv_number(value));
      for (const ImportedParameter& parameter : parameters_) {
        cells.push_back(cell_of_trial(trial, parameter));
      }
      text += csv_line(cells);
    }
    return text;
  }

  std::string cell_of_trial(const OptunaTrial& trial,
                            const ImportedParameter& parameter) {
    for (const OptunaParameter& own : trial.parameters) {
      if (plain_name(own.name) != parameter.name()) continue;
      return parameter.cell(own.value, parse_json(own.distribution));
    }
    return "";
  }

  std::string recipe(const std::string& table_file) {
    const bool maximize = study_.directions[0] == "MAXIMIZE";
    std::string text = fmt::format(
        "# A study of Optuna goes on: {} of its {} trials have results.\n"
        "study: {}\n"
        "# Your program in place of none (dtune help recipe), or 'dtune ask' "
        "and 'dtune tell'.\n"
        "command: {{ run: none{} }}\n"
        "objective: {{ metric: {}, goal: {} }}\nspace:\n",
        made_.results, made_.trials,
        plain_name(study_.name).substr(0, kLongestName),
        has_steps() ? fmt::format(", steps: {}", last_ + shift()) : "", metric_,
        maximize ? "maximize" : "minimize");
    for (const ImportedParameter& parameter : parameters_) {
      text += fmt::format("  {}: {}\n", parameter.name(), parameter.yaml());
    }
    return text + fmt::format("warm_start: [{}]\nbudget: {{ trials: {} }}\n",
                              yaml_of(table_file), made_.trials);
  }

  OptunaStudy study_;
  std::string metric_;
  std::vector<ImportedParameter> parameters_;
  int first_ = std::numeric_limits<int>::max();
  int last_ = std::numeric_limits<int>::min();
  OptunaImport made_;
};

}  // namespace

OptunaImport import_optuna(const OptunaStudy& study,
                           const std::string& table_file) {
  try {
    return Importer(study).make(table_file);
  } catch (const OptunaJson::exception& error) {
    throw Error(ErrorKind::data,
                fmt::format("the study {} of Optuna has a distribution that "
                            "cannot be read: {}",
                            study.name, error.what()));
  }
}

}  // namespace dtune
