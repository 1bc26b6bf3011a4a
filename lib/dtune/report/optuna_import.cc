#include "dtune/report/optuna_import.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/json.h"
#include "dtune/report/csv.h"
#include "dtune/report/optuna_conditions.h"

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

bool is_truth(const OptunaJson& choice) { return choice.is_boolean(); }

// What a choice among others than truths is called in the recipe: null and
// truths are Python's words.
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
        if (std::find(choices_.begin(), choices_.end(), choice) ==
            choices_.end()) {
          choices_.push_back(choice);
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

  bool is_choice() const { return !choices_.empty(); }
  bool is_whole() const { return kind_.starts_with("Int"); }
  bool is_fixed() const { return !is_choice() && low_ == high_; }

  // "{ log: [0.0001, 0.1] }"; `condition` may be "".
  std::string yaml(const std::string& condition) const {
    if (is_fixed()) return csv_number(low_);
    const std::string when =
        condition.empty() ? "" : ", when: " + yaml_of(condition);
    return fmt::format("{{ {}{} }}", values(), when);
  }

  // A number, a truth or a word, as the recipe has it. `distribution` is that
  // of the trial.
  OptunaJson value(double number, const OptunaJson& distribution) const {
    const OptunaJson& fields = distribution.at("attributes");
    if (!fields.contains("choices")) {
      if (is_whole() && number == std::floor(number)) {
        return static_cast<int64_t>(number);
      }
      return number;
    }
    return choice(fields["choices"].at(
        static_cast<size_t>(std::llround(std::max(number, 0.0)))));
  }

 private:
  // True and false alone are what programs in any language take for truths;
  // the word "False" of a choice is a true one in Python.
  bool is_flag() const {
    return choices_.size() == 2 && std::ranges::all_of(choices_, is_truth);
  }
  OptunaJson choice(const OptunaJson& theirs) const {
    return is_flag() ? theirs : choice_word(theirs);
  }

  // "log: [0.0001, 0.1]"
  std::string values() const {
    if (is_flag()) return "bool: true";
    if (is_choice()) {
      OptunaJson words = OptunaJson::array();
      for (const OptunaJson& one : choices_) words.push_back(choice_word(one));
      return "choice: " + yaml_of(words);
    }
    const bool whole = is_whole();
    const bool stepped = step_ > 0 && !(whole && step_ == 1);
    return fmt::format("{}: [{}, {}]{}{}", word(), csv_number(low_),
                       csv_number(high_), whole && log_ ? ", log: true" : "",
                       stepped ? ", step: " + csv_number(step_) : "");
  }

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
    for (const OptunaTrial& trial : study_.trials) {
      if (has_result(trial)) points_.push_back(point_of(trial));
    }
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
    const auto known = names_.find(name);
    if (known != names_.end()) return known->second;
    std::string plain = plain_name(name);
    const auto taken = [&] {
      return std::ranges::any_of(
          names_, [&](const auto& one) { return one.second == plain; });
    };
    while (taken()) plain += '_';
    names_.emplace(name, plain);
    if (plain != name) {
      made_.renamed.push_back(fmt::format("{} -> {}", name, plain));
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

  OptunaPoint point_of(const OptunaTrial& trial) {
    OptunaPoint point;
    for (const OptunaParameter& own : trial.parameters) {
      const ImportedParameter& parameter = parameter_of(own.name);
      point[parameter.name()] =
          parameter.value(own.value, parse_json(own.distribution));
    }
    return point;
  }

  // "opt == 'sgd'", of those before it: conditions form no cycle.
  std::string condition_of(const ImportedParameter& parameter) {
    const std::string& name = parameter.name();
    const auto without = std::ranges::count_if(
        points_, [&](const auto& point) { return !point.contains(name); });
    if (without == 0 || parameter.is_fixed()) return "";
    std::vector<OptunaCause> causes;
    for (const ImportedParameter& other : parameters_) {
      if (&other == &parameter) break;
      if (other.is_choice() || other.is_whole()) {
        causes.push_back({other.name(), other.is_choice()});
      }
    }
    std::string condition = find_optuna_condition(name, causes, points_);
    if (condition.empty()) {
      made_.unexplained.push_back(
          fmt::format("{}: {} of {} results", name, without, points_.size()));
    } else {
      made_.conditions.push_back(fmt::format("{}: when {}", name, condition));
    }
    return condition;
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
    auto point = points_.begin();
    for (const OptunaTrial& trial : study_.trials) {
      if (has_result(trial)) text += rows(trial, *point++);
    }
    return text;
  }

  std::string rows(const OptunaTrial& trial, const OptunaPoint& point) {
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
        const auto own = point.find(parameter.name());
        cells.push_back(own == point.end() ? "" : cell_of(own->second));
      }
      text += csv_line(cells);
    }
    return text;
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
      text += fmt::format("  {}: {}\n", parameter.name(),
                          parameter.yaml(condition_of(parameter)));
    }
    return text + fmt::format("warm_start: [{}]\nbudget: {{ trials: {} }}\n",
                              yaml_of(table_file), made_.trials);
  }

  OptunaStudy study_;
  std::string metric_;
  std::map<std::string, std::string> names_;  // theirs -> the recipe's
  std::vector<ImportedParameter> parameters_;
  std::vector<OptunaPoint> points_;  // of the results, in their order
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
