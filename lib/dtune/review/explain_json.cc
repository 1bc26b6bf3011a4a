// Explanations for programs.
#include <cmath>

#include <nlohmann/json.hpp>

#include "dtune/base/json.h"
#include "dtune/review/explain.h"

namespace dtune {
namespace {

using nlohmann::ordered_json;

ordered_json number_json(double number) {
  return std::isfinite(number) ? ordered_json(number) : ordered_json();
}

ordered_json value_json(const Value& value) {
  if (const double* real = std::get_if<double>(&value)) {
    return number_json(*real);
  }
  return std::visit([](const auto& held) { return ordered_json(held); }, value);
}

ordered_json params_json(const Point& point) {
  ordered_json params = ordered_json::object();
  for (const auto& [name, value] : point) params[name] = value_json(value);
  return params;
}

ordered_json decision_json(const ExplainedDecision& explained) {
  const Decision& decision = explained.decision;
  ordered_json object = {{"decision", decision.number},
                         {"action", decision.action},
                         {"maker", to_string(decision.maker)},
                         {"trial", decision.trial},
                         {"step", decision.step},
                         {"target_step", decision.target_step},
                         {"after_report", nullptr},
                         {"why", decision.why},
                         {"best", nullptr}};
  if (decision.after_report >= 0) {
    object["after_report"] = decision.after_report;
  }
  if (explained.best.trial != 0) {
    object["best"] = {{"trial", explained.best.trial},
                      {"value", number_json(explained.best.value)}};
  }
  return object;
}

ordered_json best_json(const Study& study, TrialId id) {
  const ObjectiveSpec& objective = study.recipe.objective;
  const Trial& trial = study.trial(id);
  const StepReport& report = *best_report(objective, trial);
  return {{"trial", id},
          {"value", number_json(metric_of(
                        objective, *objective_value(objective, report)))},
          {"step", report.step},
          {"params", params_json(trial.point)}};
}

ordered_json importance_json(const Importance& importance) {
  ordered_json parameters = ordered_json::array();
  for (const ParameterImportance& p : importance.parameters) {
    parameters.push_back(
        {{"name", p.name},
         {"share", number_json(p.share)},
         {"best", p.best ? value_json(*p.best) : ordered_json()}});
  }
  return {{"trials", importance.trials},
          {"failures", importance.failures},
          {"together", number_json(importance.together)},
          {"parameters", parameters}};
}

// Texts of recipes and programs need not be UTF-8.
std::string dumped(const ordered_json& document) {
  return json_text(document, 2) + '\n';
}

}  // namespace

std::string study_explanation_json(const Study& study,
                                   const StudyExplanation& explanation) {
  ordered_json document = {
      {"study", study.recipe.study}, {"id", study.id},
      {"tuner", explanation.tuner},  {"best", ordered_json::array()},
      {"importance", nullptr},       {"cuts", ordered_json::array()},
      {"paused", explanation.paused}};
  for (const TrialId id : explanation.best) {
    document["best"].push_back(best_json(study, id));
  }
  if (explanation.importance) {
    document["importance"] = importance_json(*explanation.importance);
  }
  for (const ExplainedDecision& cut : explanation.cuts) {
    document["cuts"].push_back(decision_json(cut));
  }
  return dumped(document);
}

std::string trial_explanation_json(const Study& study,
                                   const TrialExplanation& explanation) {
  const Trial& trial = study.trial(explanation.trial);
  ordered_json document = {{"study", study.recipe.study},
                           {"id", study.id},
                           {"trial", trial.id},
                           {"state", to_string(trial.state)},
                           {"reason", to_string(trial.reason)},
                           {"detail", trial.detail},
                           {"params", params_json(trial.point)},
                           {"proposed", nullptr},
                           {"decisions", ordered_json::array()},
                           {"tuner", explanation.tuner},
                           {"curve", ordered_json::array()},
                           {"predicted", ordered_json::array()}};
  for (const ExplainedDecision& explained : explanation.decisions) {
    const bool first = explained.decision.action == "start";
    if (first) document["proposed"] = explained.decision.why;
    document["decisions"].push_back(decision_json(explained));
  }
  const ObjectiveSpec& objective = study.recipe.objective;
  for (const StepReport& report : trial.curve) {
    const auto value = objective_value(objective, report);
    document["curve"].push_back(
        {{"step", report.step},
         {"value", value ? ordered_json(metric_of(objective, *value))
                         : ordered_json()}});
  }
  for (const Prediction& p : explanation.predicted) {
    document["predicted"].push_back({{"step", p.step},
                                     {"mean", number_json(p.mean)},
                                     {"low", number_json(p.low)},
                                     {"high", number_json(p.high)}});
  }
  return dumped(document);
}

}  // namespace dtune
