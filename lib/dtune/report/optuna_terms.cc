#include "dtune/report/optuna_terms.h"

#include <algorithm>
#include <cmath>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/json.h"

namespace dtune {
namespace {

using nlohmann::ordered_json;

constexpr OptunaState kRunning{0, "RUNNING"};
constexpr OptunaState kComplete{1, "COMPLETE"};
constexpr OptunaState kPruned{2, "PRUNED"};
constexpr OptunaState kFail{3, "FAIL"};

std::string time_text(int64_t wall_ms) {
  const auto seconds = static_cast<std::time_t>(wall_ms / 1000);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:03}000", fmt::gmtime(seconds),
                     wall_ms % 1000);
}

OptunaState state_of(const Trial& trial, bool has_value) {
  switch (trial.state) {
    case TrialState::complete:
      return has_value ? kComplete : kFail;
    case TrialState::paused:
    case TrialState::cut:
      return kPruned;
    case TrialState::waiting:
    case TrialState::running:
      return kRunning;
    default:
      return kFail;
  }
}

ordered_json choice_json(const Value& value) {
  return std::visit([](const auto& held) { return ordered_json(held); }, value);
}

ordered_json named(const char* name, ordered_json attributes) {
  return {{"name", name}, {"attributes", std::move(attributes)}};
}

std::vector<Value> choices_of(const Parameter& parameter) {
  if (parameter.kind == ParameterKind::boolean) return {false, true};
  return parameter.choices;
}

// Distributions as optuna.distributions.distribution_to_json writes them.
ordered_json distribution_json(const Parameter& parameter) {
  switch (parameter.kind) {
    case ParameterKind::real: {
      const bool steps = parameter.quantum > 0 && !parameter.log;
      return named(
          "FloatDistribution",
          {{"step", steps ? ordered_json(parameter.quantum) : ordered_json()},
           {"low", parameter.low},
           {"high", parameter.high},
           {"log", parameter.log}});
    }
    case ParameterKind::integer: {
      const auto step = std::max<int64_t>(1, std::llround(parameter.quantum));
      const bool log = parameter.log && step == 1 && parameter.low >= 1;
      return named("IntDistribution", {{"log", log},
                                       {"step", step},
                                       {"low", std::llround(parameter.low)},
                                       {"high", std::llround(parameter.high)}});
    }
    case ParameterKind::categorical:
    case ParameterKind::boolean:
      break;
  }
  ordered_json choices = ordered_json::array();
  for (const Value& choice : choices_of(parameter)) {
    choices.push_back(choice_json(choice));
  }
  return named("CategoricalDistribution", {{"choices", choices}});
}

// A value as Optuna keeps it: of choices the place among them.
std::optional<double> internal_value(const Parameter& parameter,
                                     const Value& value) {
  if (parameter.kind == ParameterKind::real ||
      parameter.kind == ParameterKind::integer) {
    return as_number(value);
  }
  const std::vector<Value> choices = choices_of(parameter);
  for (size_t i = 0; i < choices.size(); ++i) {
    if (choices[i] == value) return double(i);
  }
  return std::nullopt;
}

std::string text_of(const ordered_json& json) { return json_text(json); }

std::vector<OptunaParameter> parameters_of(const Study& study,
                                           const Trial& trial) {
  std::vector<OptunaParameter> parameters;
  for (const Parameter& parameter : study.recipe.space.parameters()) {
    const auto found = trial.point.find(parameter.name);
    if (found == trial.point.end()) continue;
    const auto value = internal_value(parameter, found->second);
    if (!value) continue;
    parameters.push_back(
        {parameter.name, *value, text_of(distribution_json(parameter))});
  }
  return parameters;
}

std::map<std::string, std::string> attributes_of(const Trial& trial) {
  double seconds = 0;
  for (const StepReport& report : trial.curve) seconds += report.seconds;
  std::string why = to_string(trial.reason);
  if (!trial.detail.empty()) why += ": " + trial.detail;
  return {{"dtune:state", text_of(to_string(trial.state))},
          {"dtune:why", text_of(why)},
          {kOptunaKind, text_of(to_string(trial.kind))},
          {"dtune:seconds", text_of(seconds)}};
}

// What is complete counts with its best value, what was left with its last.
std::optional<double> value_of(const ObjectiveSpec& objective,
                               const Trial& trial, const OptunaState& state) {
  const auto value =
      state.number == kComplete.number ? best_value(objective, trial)
      : state.number == kPruned.number ? last_value(objective, trial)
                                       : std::nullopt;
  if (!value) return std::nullopt;
  return metric_of(objective, *value);
}

}  // namespace

OptunaTrial optuna_trial(const Study& study, const Trial& trial) {
  const ObjectiveSpec& objective = study.recipe.objective;
  const int64_t start =
      trial.started_ms > 0 ? trial.started_ms : trial.created_ms;
  OptunaTrial one;
  one.number = trial.id - 1;
  one.state = state_of(trial, best_value(objective, trial).has_value());
  one.value = value_of(objective, trial, one.state);
  one.started = time_text(start);
  if (one.state.number != kRunning.number) {
    one.completed = time_text(trial.ended_ms);
  }
  one.parameters = parameters_of(study, trial);
  one.attributes = attributes_of(trial);
  for (const StepReport& report : trial.curve) {
    const auto found = report.metrics.find(objective.metric);
    if (found != report.metrics.end()) {
      one.steps.emplace_back(report.step, found->second);
    }
  }
  return one;
}

std::map<std::string, std::string> optuna_attributes(const Study& study,
                                                     const StudyFacts& facts) {
  std::map<std::string, std::string> attributes = {
      {"dtune:id", text_of(study.id)},
      {"dtune:state", text_of(to_string(study.state))}};
  if (const Trial* best = chosen_trial(study, facts)) {
    attributes["dtune:best_trial"] = text_of(best->id - 1);
  }
  return attributes;
}

}  // namespace dtune
