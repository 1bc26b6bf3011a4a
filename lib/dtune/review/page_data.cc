#include "dtune/review/page_data.h"

#include <limits>

#include <fmt/format.h>

#include "dtune/report/expectations.h"
#include "dtune/review/explain.h"
#include "dtune/review/findings.h"
#include "dtune/review/outlook.h"
#include "dtune/review/page_parts.h"

namespace dtune {
namespace {

constexpr size_t kForecastTrials = 12;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

void write_metrics(const char* name, const std::map<std::string, double>& all,
                   const std::string& prefix, PageJson& json) {
  json.key(name);
  json.begin_object();
  for (const auto& [metric, value] : all) {
    if (metric.starts_with(prefix)) {
      json.number(metric.substr(prefix.size()), value);
    }
  }
  json.end_object();
}

void write_best(const ReportedStudy& reported, PageJson& json) {
  const Study& study = *reported.study;
  const ObjectiveSpec& objective = study.recipe.objective;
  const Trial* best = chosen_trial(study, reported.facts);
  const StepReport* report =
      best == nullptr ? nullptr : best_report(objective, *best);
  json.text("why_no_best", report == nullptr ? why_no_best(study) : "");
  json.key("best");
  if (report == nullptr) return json.null();
  json.begin_object();
  json.integer("trial", best->id);
  json.integer("step", report->step);
  json.number("value",
              metric_of(objective, *objective_value(objective, *report)));
  json.text("point", describe_point(study, best->point));
  json.end_object();
}

void write_expected(const ReportedStudy& reported, PageJson& json) {
  json.key("expected");
  json.begin_array();
  for (const ExpectationResult& result :
       evaluate_expectations(*reported.study, reported.facts)) {
    json.begin_object();
    json.text("outcome", to_string(result.outcome));
    json.text("text", result.message);
    json.end_object();
  }
  json.end_array();
}

void write_problems(const ReportedStudy& reported, PageJson& json) {
  std::vector<StudyProblem> problems =
      find_problems(*reported.study, reported.facts, reported.records->ranks);
  if (!reported.tuner_problem.empty()) {
    problems.push_back(
        {"There are no forecasts in this report: " + reported.tuner_problem,
         ""});
  }
  json.key("problems");
  json.begin_array();
  for (const StudyProblem& problem : problems) {
    json.begin_object();
    json.text("what", problem.what);
    json.text("remedy", problem.remedy);
    json.end_object();
  }
  json.end_array();
}

void write_command(const std::string& command, const char* what,
                   PageJson& json) {
  if (command.empty()) return;
  json.begin_object();
  json.text("command", command);
  json.text("what", what);
  json.end_object();
}

void write_next(const ReportedStudy& reported, PageJson& json) {
  json.key("next");
  json.begin_array();
  write_command(next_command(*reported.study, reported.facts),
                "what to type next", json);
  write_command(again_command(*reported.study, reported.facts),
                "train the best point again", json);
  json.end_array();
}

void write_limit(const char* name, double limit, PageJson& json) {
  json.number(name, limit > 0 ? limit : kUnknown);
}

void write_head(const ReportedStudy& reported, PageJson& json) {
  const Study& study = *reported.study;
  const StudyFacts& facts = reported.facts;
  json.text("name", study.recipe.study);
  json.text("id", study.id);
  json.text("database", facts.database);
  json.text("recipe", facts.recipe_path);
  json.text("state", to_string(study.state));
  json.text("metric", study.recipe.objective.metric);
  json.text("goal", to_string(study.recipe.objective.goal));
  write_limit("horizon", study.horizon < kOpenHorizon ? study.horizon : 0,
              json);
  json.number("seconds", study.searched_seconds);
  json.integer("created_ms", study.created_ms);
  json.integer("now_ms", reported.now_ms);
  json.key("budget");
  json.begin_object();
  write_limit("trials", double(facts.budget_trials), json);
  write_limit("seconds", facts.budget_seconds, json);
  write_limit("steps", double(facts.budget_steps), json);
  json.end_object();
}

void write_prediction(int64_t steps, double mean, double low, double high,
                      PageJson& json) {
  json.begin_array();
  json.integer(steps);
  for (const double value : {mean, low, high}) json.number(value);
  json.end_array();
}

}  // namespace

void write_verdict(const ReportedStudy& reported, PageJson& json) {
  const Study& study = *reported.study;
  const FinalResult* model = shipped_model(study, reported.facts);
  const std::map<std::string, double> none;
  json.key("verdict");
  json.begin_object();
  write_best(reported, json);
  json.text("states", describe_states(study));
  json.text("why", why_ended(study, reported.facts));
  json.text("chosen", model == nullptr ? "" : model->chosen);
  json.text("model", model == nullptr ? "" : model->model);
  const auto& metrics = model == nullptr ? none : model->metrics;
  write_metrics("test", metrics, "test_", json);
  write_metrics("validation", metrics, "val_", json);
  write_expected(reported, json);
  write_problems(reported, json);
  json.key("tuner");
  json.begin_array();
  if (reported.tuner != nullptr) {
    for (const std::string& line : tuner_words(study, *reported.tuner)) {
      json.text(line);
    }
  }
  json.end_array();
  write_next(reported, json);
  json.end_object();
}

void write_forecasts(const ReportedStudy& reported, PageJson& json) {
  const Study& study = *reported.study;
  std::vector<OpenTrial> open;
  if (reported.tuner != nullptr && study.horizon < kOpenHorizon) {
    open = open_trials(study, *reported.tuner, kForecastTrials);
  }
  json.key("outlook");
  json.begin_array();
  for (const OutlookPoint& point : outlook(study, open)) {
    write_prediction(point.steps, point.mean, point.low, point.high, json);
  }
  json.end_array();
  const Trial* leader = chosen_trial(study, reported.facts);
  if (leader != nullptr && reported.tuner != nullptr) {
    open.insert(open.begin(),
                {leader->id, predict_curve(study, *leader, *reported.tuner)});
  }
  json.key("predicted");
  json.begin_array();
  for (const OpenTrial& one : open) {
    json.begin_object();
    json.integer("trial", one.trial);
    json.key("points");
    json.begin_array();
    for (const Prediction& p : one.predicted) {
      write_prediction(p.step, p.mean, p.low, p.high, json);
    }
    json.end_array();
    json.end_object();
  }
  json.end_array();
}

std::string page_data(const ReportedStudy& reported) {
  PageJson json;
  json.begin_object();
  write_head(reported, json);
  json.number("noise", step_noise(*reported.study).value_or(kUnknown));
  write_verdict(reported, json);
  write_trials(reported, json);
  write_forecasts(reported, json);
  write_importance(reported, json);
  write_course(reported, json);
  write_beliefs(reported, json);
  json.end_object();
  return json.take();
}

}  // namespace dtune
