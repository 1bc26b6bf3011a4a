// Reads a journal of Optuna: a JSON object a line, each an operation.
#include <cmath>
#include <functional>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/json.h"
#include "dtune/report/optuna_storage.h"

namespace dtune {
namespace {

using OptunaJson = nlohmann::json;

// Python writes NaN and infinities as words that JSON does not know; they stand
// for no result here.
std::string without_words(const std::string& line) {
  std::string plain;
  bool quoted = false;
  for (size_t at = 0; at < line.size(); ++at) {
    const char c = line[at];
    if (c == '\\' && quoted) plain += line[at++];
    if (c == '"') quoted = !quoted;
    size_t skipped = 0;
    for (const std::string_view word : {"NaN", "-Infinity", "Infinity"}) {
      if (!quoted && line.compare(at, word.size(), word) == 0) {
        skipped = word.size();
        break;
      }
    }
    if (skipped > 0) {
      plain += "null";
      at += skipped - 1;
    } else if (at < line.size()) {
      plain += line[at];
    }
  }
  return plain;
}

std::optional<double> number_in(const OptunaJson& json) {
  if (!json.is_number()) return std::nullopt;
  return json.get<double>();
}

// Of "values": [v], or "value": v.
std::optional<double> value_in(const OptunaJson& line) {
  const OptunaJson& values =
      line.contains("values") ? line["values"] : OptunaJson();
  if (values.is_array() && !values.empty()) return number_in(values[0]);
  return line.contains("value") ? number_in(line["value"]) : std::nullopt;
}

class Journal {
 public:
  // Operations on what was deleted, or never came to be, do nothing.
  void apply(const OptunaJson& line) {
    switch (line.at("op_code").get<int>()) {
      case 0:
        return create_study(line);
      case 1:
        studies_.erase(line.at("study_id").get<int64_t>());
        return;
      case 3:
        return set_study_attribute(line);
      case 4:
        return create_trial(line);
      case 5:
        if (OptunaTrial* trial = trial_of(line)) {
          trial->parameters.push_back({line.at("param_name"),
                                       line.at("param_value_internal"),
                                       line.at("distribution")});
        }
        return;
      case 6:
        if (OptunaTrial* trial = trial_of(line)) {
          trial->state = optuna_state(line.at("state").get<int64_t>());
          if (const auto value = value_in(line)) trial->value = value;
        }
        return;
      case 7:
        if (OptunaTrial* trial = trial_of(line)) {
          trial->steps.emplace_back(
              line.at("step").get<int>(),
              number_in(line.at("intermediate_value")).value_or(std::nan("")));
        }
        return;
      case 8:
        return set_trial_attribute(line);
      default:
        return;  // other attributes
    }
  }

  std::vector<OptunaStudy> done() {
    std::vector<OptunaStudy> studies;
    for (auto& [id, study] : studies_) studies.push_back(std::move(study));
    return studies;
  }

 private:
  // Optuna ignores the second study of a name.
  void create_study(const OptunaJson& line) {
    const std::string name = line.at("study_name");
    for (const auto& [id, study] : studies_) {
      if (study.name == name) return;
    }
    OptunaStudy& study = studies_[next_study_++];
    study.name = name;
    for (const OptunaJson& direction : line.at("directions")) {
      const int number = direction.get<int>();
      study.directions.emplace_back(number == 2   ? "MAXIMIZE"
                                    : number == 1 ? "MINIMIZE"
                                                  : "NOT_SET");
    }
  }

  void set_study_attribute(const OptunaJson& line) {
    const auto found = studies_.find(line.at("study_id").get<int64_t>());
    const OptunaJson& attribute = line.at("system_attr");
    if (found == studies_.end() || !attribute.contains("study:metric_names")) {
      return;
    }
    const OptunaJson& names = attribute["study:metric_names"];
    if (names.is_array() && !names.empty()) found->second.metric = names[0];
  }

  void set_trial_attribute(const OptunaJson& line) {
    OptunaTrial* trial = trial_of(line);
    const OptunaJson& attribute = line.at("user_attr");
    if (trial == nullptr || !attribute.contains(kOptunaKind)) return;
    trial->attributes[kOptunaKind] = json_text(attribute[kOptunaKind]);
  }

  // With "state", a whole trial that was added, else one that begins.
  void create_trial(const OptunaJson& line) {
    const auto found = studies_.find(line.at("study_id").get<int64_t>());
    if (found == studies_.end()) return;
    std::vector<OptunaTrial>& trials = found->second.trials;
    places_.emplace_back(found->first, trials.size());
    OptunaTrial trial;
    trial.number = std::ssize(trials);
    trial.state = optuna_state(line.value("state", int64_t{0}));
    trial.value = value_in(line);
    const OptunaJson params = line.value("params", OptunaJson::object());
    for (const auto& [name, value] : params.items()) {
      trial.parameters.push_back(
          {name, value, line.at("distributions").at(name)});
    }
    const OptunaJson steps =
        line.value("intermediate_values", OptunaJson::object());
    for (const auto& [step, value] : steps.items()) {
      trial.steps.emplace_back(std::stoi(step),
                               number_in(value).value_or(std::nan("")));
    }
    trials.push_back(std::move(trial));
  }

  OptunaTrial* trial_of(const OptunaJson& line) {
    const size_t id = line.at("trial_id").get<size_t>();
    if (id >= places_.size()) return nullptr;
    const auto found = studies_.find(places_[id].first);
    return found == studies_.end() ? nullptr
                                   : &found->second.trials[places_[id].second];
  }

  std::map<int64_t, OptunaStudy> studies_;
  int64_t next_study_ = 0;
  std::vector<std::pair<int64_t, size_t>> places_;  // of trials, by their id
};

}  // namespace

std::vector<OptunaStudy> read_optuna_journal(const std::string& text,
                                             const std::string& name) {
  Journal journal;
  int number = 0;
  for (size_t at = 0; at < text.size();) {
    ++number;
    size_t end = text.find('\n', at);
    if (end == std::string::npos) break;  // is being written
    try {
      const std::string line = text.substr(at, end - at);
      if (!line.empty()) journal.apply(parse_json(without_words(line)));
    } catch (const std::exception& error) {
      throw Error(ErrorKind::data,
                  fmt::format("{}:{}:1: is not a line of an Optuna journal: {} "
                              "(name the SQLite file or journal of its "
                              "storage)",
                              name, number, error.what()));
    }
    at = end + 1;
  }
  return journal.done();
}

}  // namespace dtune
