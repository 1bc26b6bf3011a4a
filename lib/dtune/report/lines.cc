#include "dtune/report/lines.h"

#include <string_view>

#include <fmt/format.h>

#include "dtune/report/text.h"
#include "dtune/report/trial_table.h"

namespace dtune {
namespace {

std::string stamp(double seconds) { return fmt::format("{:.1f}s ", seconds); }

std::string best_text(const Study& study) {
  const ObjectiveSpec& objective = study.recipe.objective;
  const Trial* best = incumbent(study);
  if (best == nullptr) return "";
  return fmt::format(" (best {})",
                     format_metric(metric_of(
                         objective, best_value(objective, *best).value_or(0))));
}

// The final training has no validation images: instead what it has of the
// images that it is trained with.
std::string metric_text(const StepReport& report, const std::string& metric) {
  constexpr std::string_view kValidation = "val_";
  std::string shown = metric;
  if (!report.metrics.contains(metric) && metric.starts_with(kValidation)) {
    const std::string other = "train_" + metric.substr(kValidation.size());
    if (report.metrics.contains(other)) shown = other;
  }
  const auto found = report.metrics.find(shown);
  return printable(shown) + "=" +
         (found == report.metrics.end() ? "missing"
                                        : format_metric(found->second));
}

}  // namespace

std::string started_line(const Study& study, double elapsed_seconds) {
  const size_t done = study.trials.size();
  return stamp(elapsed_seconds) +
         fmt::format(
             "study {} {}: {}{}, seed {}", printable(study.recipe.study),
             done == 0 ? "started"
                       : fmt::format("resumed with {} trials", done),
             fmt::format("{} {}", to_string(study.recipe.objective.goal),
                         printable(study.recipe.objective.metric)),
             study.horizon < kOpenHorizon
                 ? fmt::format(", horizon {}", study.horizon)
                 : "",
             study.recipe.seed);
}

std::string report_line(const Study& study, const Trial& trial,
                        const StepReport& report, double elapsed_seconds) {
  return stamp(elapsed_seconds) +
         fmt::format("trial {} step {} {}{} {}", trial.id,
                     format_step(report.step, last_step(study, trial)),
                     metric_text(report, study.recipe.objective.metric),
                     best_text(study), describe_point(study, trial.point));
}

std::string state_line(const Study& study, const Trial& trial,
                       double elapsed_seconds) {
  std::string line =
      stamp(elapsed_seconds) +
      fmt::format("trial {} {} at step {}", trial.id, state_words(trial.state),
                  format_step(trial.steps(), last_step(study, trial)));
  if (trial.reason != Reason::none) {
    line += fmt::format(": {}", to_string(trial.reason));
  }
  if (!trial.detail.empty()) {
    line += fmt::format(" ({})", printable(trial.detail));
  }
  return line;
}

std::string turn_line(const Study& study, const Trial& trial,
                      double elapsed_seconds) {
  if (trial.curve.empty()) return state_line(study, trial, elapsed_seconds);
  std::string line =
      report_line(study, trial, trial.curve.back(), elapsed_seconds);
  if (trial.state == TrialState::paused) return line;
  line += ": " + state_words(trial.state);
  if (trial.state == TrialState::complete && trial.kind != TrialKind::final) {
    return line;
  }
  if (trial.state != TrialState::complete) {
    line += fmt::format(", {}", to_string(trial.reason));
  }
  return trial.detail.empty()
             ? line
             : line + fmt::format(" ({})", printable(trial.detail));
}

std::string notice_line(const std::string& text, double elapsed_seconds) {
  return stamp(elapsed_seconds) + "notice: " + printable(text);
}

std::string finished_line(const Study& study, double elapsed_seconds) {
  return stamp(elapsed_seconds) +
         fmt::format("study {} {}: {}{}", printable(study.recipe.study),
                     to_string(study.state), describe_states(study),
                     best_text(study));
}

}  // namespace dtune
