#include "dtune/report/csv.h"

#include <cmath>
#include <set>

#include <fmt/format.h>

#include "dtune/report/facts.h"

namespace dtune {
namespace {

// Quoted where RFC 4180 requires it.
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    quoted += c;
    if (c == '"') quoted += '"';
  }
  quoted += '"';
  return quoted;
}

std::vector<std::string> trial_fields(const Study& study, const Trial& trial) {
  double seconds = 0;
  for (const StepReport& report : trial.curve) seconds += report.seconds;
  const ObjectiveSpec& objective = study.recipe.objective;
  const StepReport* best = best_report(objective, trial);
  std::vector<std::string> fields = {
      std::to_string(trial.id),
      to_string(trial.kind),
      to_string(trial.state),
      to_string(trial.reason),
      trial.detail,
      std::to_string(trial.attempt),
      std::to_string(trial.failures),
      std::to_string(trial.seed),
      std::to_string(trial.steps()),
      csv_number(seconds),
      trial.node,
      std::to_string(trial.slot),
      std::to_string(trial.created_ms),
      std::to_string(trial.started_ms),
      std::to_string(trial.ended_ms),
      best ? std::to_string(best->step) : "",
      best ? csv_number(best->metrics.at(objective.metric)) : ""};
  for (const Parameter& parameter : study.recipe.space.parameters()) {
    const auto found = trial.point.find(parameter.name);
    fields.push_back(found == trial.point.end() ? ""
                                                : to_string(found->second));
  }
  return fields;
}

}  // namespace

std::string csv_line(const std::vector<std::string>& fields) {
  std::string text;
  for (const std::string& f : fields) {
    if (&f != &fields.front()) text += ',';
    text += field(f);
  }
  return text + '\n';
}

std::string csv_number(double value) {
  if (std::isnan(value)) return "";
  return fmt::format("{}", value);
}

std::string trials_csv(const Study& study) {
  std::vector<std::string> header = {"trial",
                                     "kind",
                                     "state",
                                     "reason",
                                     "detail",
                                     "attempt",
                                     "failures",
                                     "seed",
                                     "step",
                                     "seconds",
                                     "node",
                                     "slot",
                                     "created_ms",
                                     "started_ms",
                                     "ended_ms",
                                     "best_step",
                                     study.recipe.objective.metric};
  for (const Parameter& parameter : study.recipe.space.parameters()) {
    header.push_back("param." + parameter.name);
  }
  std::string text = csv_line(header);
  for (const Trial& trial : study.trials) {
    text += csv_line(trial_fields(study, trial));
  }
  return text;
}

std::string curves_csv(const Study& study) {
  std::set<std::string> metrics;
  for (const Trial& trial : study.trials) {
    for (const StepReport& report : trial.curve) {
      for (const auto& [name, value] : report.metrics) metrics.insert(name);
    }
  }
  std::vector<std::string> header = {"trial", "step", "seconds",
                                     "checkpoint_seconds"};
  header.insert(header.end(), metrics.begin(), metrics.end());
  std::string text = csv_line(header);
  for (const Trial& trial : study.trials) {
    for (const StepReport& report : trial.curve) {
      std::vector<std::string> fields = {
          std::to_string(trial.id), std::to_string(report.step),
          csv_number(report.seconds), csv_number(report.checkpoint_seconds)};
      for (const std::string& name : metrics) {
        const auto found = report.metrics.find(name);
        fields.push_back(
            found == report.metrics.end() ? "" : csv_number(found->second));
      }
      text += csv_line(fields);
    }
  }
  return text;
}

}  // namespace dtune
