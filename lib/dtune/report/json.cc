#include "dtune/report/json.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/json.h"
#include "dtune/report/lines.h"
#include "dtune/study/pareto.h"

namespace dtune {
namespace {

using Json = nlohmann::ordered_json;

// null where JSON has no word for the number.
Json number_json(double number) {
  return std::isfinite(number) ? Json(number) : Json(nullptr);
}

Json value_json(const Value& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag;
  if (const int64_t* integer = std::get_if<int64_t>(&value)) return *integer;
  if (const double* real = std::get_if<double>(&value)) {
    return number_json(*real);
  }
  return std::get<std::string>(value);
}

Json point_json(const Point& point) {
  Json json = Json::object();
  for (const auto& [name, value] : point) json[name] = value_json(value);
  return json;
}

Json metrics_json(const std::map<std::string, double>& metrics) {
  Json json = Json::object();
  for (const auto& [name, value] : metrics) json[name] = number_json(value);
  return json;
}

// TRIAL of json.h.
Json trial_object(const Study& study, const Trial& trial) {
  const ObjectiveSpec& objective = study.recipe.objective;
  const StepReport* best = best_report(objective, trial);
  const auto last = last_value(objective, trial);
  double seconds = 0;
  for (const StepReport& report : trial.curve) seconds += report.seconds;
  return {{"trial", trial.id},
          {"kind", to_string(trial.kind)},
          {"state", to_string(trial.state)},
          {"reason", to_string(trial.reason)},
          {"detail", trial.detail},
          {"step", trial.steps()},
          {"attempt", trial.attempt},
          {"failures", trial.failures},
          {"seed", fmt::format("{:#018x}", trial.seed)},
          {"params", point_json(trial.point)},
          {"metric", best ? Json(best->metrics.at(objective.metric)) : Json()},
          {"last", last ? Json(metric_of(objective, *last)) : Json()},
          {"metrics", metrics_json(best ? best->metrics
                                        : std::map<std::string, double>())},
          {"seconds", number_json(seconds)},
          {"node", trial.node},
          {"slot", trial.slot}};
}

Json curve_json(const Trial& trial) {
  Json curve = Json::array();
  for (const StepReport& report : trial.curve) {
    curve.push_back(
        {{"step", report.step},
         {"seconds", number_json(report.seconds)},
         {"checkpoint_seconds", number_json(report.checkpoint_seconds)},
         {"metrics", metrics_json(report.metrics)}});
  }
  return curve;
}

// Bytes that are no UTF-8 are replaced. indent -1: one line.
std::string dump_json(const Json& json, int indent) {
  return json_text(json, indent);
}

std::string document(const Json& json) { return dump_json(json, 2) + '\n'; }

template <typename Number>
Json limit_json(Number granted) {
  return granted > 0 ? Json(granted) : Json();
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json state_counts(const std::vector<StateCount>& counts) {
  Json json = {{"total", 0}};
  int total = 0;
  for (const StateCount& count : counts) {
    json[to_string(count.state)] = count.trials;
    total += count.trials;
  }
  json["total"] = total;
  return json;
}

Json reason_counts(const std::vector<StateCount>& counts) {
  Json json = Json::object();
  for (const StateCount& count : counts) {
    for (const auto& [reason, trials] : count.reasons) {
      json[to_string(count.state)][to_string(reason)] = trials;
    }
  }
  return json;
}

Json final_object(const Study& study, const StudyFacts& facts) {
  const FinalResult* model = shipped_model(study, facts);
  const TrialId id = model != nullptr ? model->final_trial : 0;
  const bool known = id > 0 && static_cast<size_t>(id) <= study.trials.size();
  return known ? trial_object(study, study.trial(id)) : Json();
}

Json status_object(const Study& study, const StudyFacts& facts) {
  const std::vector<StateCount> counts = count_states(study);
  const Trial* best = chosen_trial(study, facts);
  const FinalResult* model = shipped_model(study, facts);
  Json failures = Json::array();
  for (const Trial* trial : failed_trials(study)) {
    failures.push_back(trial_object(study, *trial));
  }
  return {
      {"study", study.recipe.study},
      {"id", study.id},
      {"state", to_string(study.state)},
      {"database", facts.database},
      {"recipe", facts.recipe_path},
      {"horizon", study.horizon},
      {"metric", study.recipe.objective.metric},
      {"goal", to_string(study.recipe.objective.goal)},
      {"searched_seconds", number_json(study.searched_seconds)},
      {"budget",
       {{"trials", limit_json(facts.budget_trials)},
        {"seconds", limit_json(facts.budget_seconds)},
        {"steps", limit_json(facts.budget_steps)}}},
      {"steps", steps_spent(study)},
      {"trials", state_counts(counts)},
      {"reasons", reason_counts(counts)},
      {"best", best ? trial_object(study, *best) : Json()},
      {"final", final_object(study, facts)},
      {"model", text_or_null(model ? model->model : "")},
      {"why", why_ended(study, facts)},
      {"chosen", text_or_null(model ? model->chosen : "")},
      {"failures", std::move(failures)},
  };
}

Json event_object(const char* event, double elapsed_seconds) {
  return {{"event", event}, {"seconds", number_json(elapsed_seconds)}};
}

std::string one_line(const Json& json) { return dump_json(json, -1); }

// One trial's figures at one step.
struct Figures {
  TrialId trial = 0;
  int step = 0;
  std::map<std::string, double> metrics;
};

Json figures_json(const Figures& figures) {
  if (figures.trial == 0) return {};
  return {{"trial", figures.trial},
          {"step", figures.step},
          {"metrics", metrics_json(figures.metrics)}};
}

// What the search saw of the chosen trial at its best.
Figures searched_figures(const Study& study, const StudyFacts& facts) {
  const Trial* best = chosen_trial(study, facts);
  const StepReport* report =
      best ? best_report(study.recipe.objective, *best) : nullptr;
  if (report == nullptr) return {};
  return {best->id, report->step, report->metrics};
}

Figures model_figures(const Study& study, const StudyFacts& facts) {
  const FinalResult* model = shipped_model(study, facts);
  if (model == nullptr) return {};
  const size_t id = static_cast<size_t>(model->final_trial);
  const int steps =
      id <= study.trials.size() ? study.trial(model->final_trial).steps() : 0;
  return {model->final_trial, model->step > 0 ? model->step : steps,
          model->metrics};
}

}  // namespace

std::string best_json(const Study& study, const StudyFacts& facts) {
  const std::string& metric = study.recipe.objective.metric;
  const Trial* best = chosen_trial(study, facts);
  const FinalResult* result = shipped_model(study, facts);
  const Figures searched = searched_figures(study, facts);
  const Figures model = model_figures(study, facts);
  // A model that was trained with the validation images has no such value.
  const Figures& valued = model.metrics.contains(metric) ? model : searched;
  const Figures& shown = model.trial > 0 ? model : searched;
  const auto value = valued.metrics.find(metric);
  Json json = {
      {"study", study.recipe.study},
      {"id", study.id},
      {"trial", best ? Json(best->id) : Json()},
      {"params", best ? point_json(best->point) : Json::object()},
      {"metric", metric},
      {"goal", to_string(study.recipe.objective.goal)},
      {"value",
       value != valued.metrics.end() ? number_json(value->second) : Json()},
      {"metrics", metrics_json(shown.metrics)},
      {"step", valued.trial > 0 ? Json(valued.step) : Json()},
      {"horizon", study.horizon},
      {"seed", study.recipe.seed},
      {"model", text_or_null(result ? result->model : "")},
      {"final_trial", model.trial > 0 ? Json(model.trial) : Json()},
      {"search", figures_json(searched)},
      {"final", figures_json(model)},
      {"chosen", text_or_null(result ? result->chosen
                              : best != nullptr && facts.result &&
                                      facts.result->best == best->id
                                  ? facts.result->chosen
                                  : "")},
      {"database", facts.database},
      {"state", to_string(study.state)},
  };
  for (const auto& [name, number] : result_metrics(study, facts)) {
    if (!json.contains(name)) json[name] = number_json(number);
  }
  return document(json);
}

std::string pareto_json(const Study& study) {
  const ObjectiveSpec& objective = study.recipe.objective;
  Json front = Json::array();
  for (const TradedOff& one : pareto_front(study)) {
    const auto& metrics = one.report->metrics;
    Json item = {{"trial", one.trial->id},
                 {"step", one.report->step},
                 {"params", point_json(one.trial->point)},
                 {objective.metric, number_json(metrics.at(objective.metric))}};
    for (const TradeOff& other : objective.trade_offs) {
      item[other.metric] = number_json(metrics.at(other.metric));
    }
    front.push_back(std::move(item));
  }
  return document(front);
}

std::string status_json(const Study& study, const StudyFacts& facts) {
  Json json = status_object(study, facts);
  json["tuner"] = facts.tuner.empty() ? Json() : Json(facts.tuner);
  json["resting_nodes"] = Json::array();
  for (const RestingNode& one : facts.resting) {
    json["resting_nodes"].push_back(
        {{"node", one.node},
         {"failures", one.failures},
         {"seconds_left", number_json(one.seconds_left)}});
  }
  json["list"] = Json::array();
  for (const Trial& trial : study.trials) {
    json["list"].push_back(trial_object(study, trial));
  }
  return document(json);
}

std::string ls_json(const std::vector<StudyListing>& studies) {
  Json json = Json::array();
  for (const StudyListing& s : studies) {
    const bool readable = s.problem.empty();
    json.push_back({{"database", s.database},
                    {"problem", text_or_null(s.problem)},
                    {"study", readable ? Json(s.row.name) : Json()},
                    {"id", readable ? Json(s.row.id) : Json()},
                    {"state", readable ? Json(to_string(s.row.state)) : Json()},
                    {"running", s.held},
                    {"trials", s.trials},
                    {"metric", text_or_null(s.row.metric)},
                    {"best", s.best ? number_json(*s.best) : Json()},
                    {"searched_seconds", number_json(s.row.searched_seconds)},
                    {"created_ms", s.row.created_ms},
                    {"recipe", text_or_null(s.row.recipe_path)}});
  }
  return document(json);
}

std::string trial_json(const Study& study, const Trial& trial,
                       const std::vector<TrialEvent>& events) {
  Json json = trial_object(study, trial);
  json["curve"] = curve_json(trial);
  json["events"] = Json::array();
  for (const TrialEvent& event : events) {
    json["events"].push_back({{"attempt", event.attempt},
                              {"state", to_string(event.state)},
                              {"reason", to_string(event.reason)},
                              {"detail", event.detail},
                              {"wall_ms", event.wall_ms}});
  }
  return document(json);
}

std::string export_json(const Study& study, const StudyFacts& facts) {
  Json json = status_object(study, facts);
  json["recipe_yaml"] = study.recipe_yaml;
  json["list"] = Json::array();
  for (const Trial& trial : study.trials) {
    Json object = trial_object(study, trial);
    object["curve"] = curve_json(trial);
    json["list"].push_back(std::move(object));
  }
  return document(json);
}

std::string expectations_json(const std::vector<ExpectationResult>& results) {
  Json list = Json::array();
  for (const ExpectationResult& result : results) {
    list.push_back(
        {{"text", result.expectation.text},
         {"where", result.expectation.where},
         {"metric", result.expectation.metric},
         {"value", result.value ? number_json(*result.value) : Json()},
         {"outcome", to_string(result.outcome)},
         {"message", result.message}});
  }
  return document(
      {{"expectations", std::move(list)}, {"passed", all_passed(results)}});
}

std::string started_json(const Study& study, double elapsed_seconds) {
  Json json = event_object("started", elapsed_seconds);
  json["study"] = study.recipe.study;
  json["id"] = study.id;
  json["seed"] = study.recipe.seed;
  json["horizon"] = study.horizon;
  return one_line(json);
}

std::string report_json(const Study& study, const Trial& trial,
                        const StepReport& report, double elapsed_seconds) {
  const ObjectiveSpec& objective = study.recipe.objective;
  const Trial* best = incumbent(study);
  Json json = event_object("report", elapsed_seconds);
  json["trial"] = trial.id;
  json["attempt"] = trial.attempt;
  json["step"] = report.step;
  json["horizon"] = study.horizon;
  json["metrics"] = metrics_json(report.metrics);
  json["params"] = point_json(trial.point);
  json["best"] =
      best ? Json(metric_of(objective, *best_value(objective, *best))) : Json();
  json["step_seconds"] = number_json(report.seconds);
  return one_line(json);
}

std::string state_json(const Study&, const Trial& trial,
                       double elapsed_seconds) {
  Json json = event_object("state", elapsed_seconds);
  json["trial"] = trial.id;
  json["attempt"] = trial.attempt;
  json["state"] = to_string(trial.state);
  json["reason"] = to_string(trial.reason);
  json["detail"] = trial.detail;
  json["step"] = trial.steps();
  json["node"] = trial.node;
  json["slot"] = trial.slot;
  return one_line(json);
}

std::string notice_json(const std::string& text, double elapsed_seconds) {
  Json json = event_object("notice", elapsed_seconds);
  json["text"] = text;
  return one_line(json);
}

std::string finished_json(const Study& study, TrialId best,
                          double elapsed_seconds) {
  Json json = event_object("finished", elapsed_seconds);
  json["study"] = study.recipe.study;
  json["state"] = to_string(study.state);
  json["best"] = best != 0 ? Json(best) : Json();
  return one_line(json);
}

}  // namespace dtune
