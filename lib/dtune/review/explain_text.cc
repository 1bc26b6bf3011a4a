// Explanations for people.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "dtune/report/trial_table.h"
#include "dtune/review/curve_plot.h"
#include "dtune/review/explain.h"

namespace dtune {
namespace {

constexpr int kLabel = 11;

// A heading on the first of its lines.
class Lines {
 public:
  explicit Lines(const TextStyle& style) : style_(style) {}

  void add(const std::string& heading, const std::string& what) {
    const bool repeated = heading == heading_;
    heading_ = heading;
    text_ +=
        paint(style_, Color::dim, pad_right(repeated ? "" : heading, kLabel)) +
        what + '\n';
  }
  void gap() {
    text_ += '\n';
    heading_.clear();
  }
  void plain(const std::string& line) { text_ += line + '\n'; }
  std::string take() { return std::move(text_); }

 private:
  const TextStyle& style_;
  std::string text_;
  std::string heading_;
};

std::string best_words(const Study& study, const BestSoFar& best) {
  if (best.trial == 0) return "";
  return fmt::format("  [best then: {} {} of trial {}]",
                     printable(study.recipe.objective.metric),
                     format_metric(best.value), best.trial);
}

std::string action_words(const Decision& decision) {
  std::string text = fmt::format("#{} {}", decision.number, decision.action);
  const bool goes = decision.action == "start" || decision.action == "resume" ||
                    decision.action == "extend";
  if (goes && decision.target_step > 0 && decision.target_step < kOpenHorizon) {
    text += fmt::format(" to step {}", decision.target_step);
  } else if (decision.step > 0) {
    text += fmt::format(" at step {}", decision.step);
  }
  return text;
}

std::string place_words(const ParameterImportance& parameter) {
  if (!parameter.best) return "best not known";
  if (const double* real = std::get_if<double>(&*parameter.best)) {
    return fmt::format("best near {:.3g}", *real);
  }
  return "best near " + printable(to_string(*parameter.best));
}

void add_importance(Lines& lines, const Importance& importance,
                    const TextStyle& style) {
  int widest = 8;
  for (const ParameterImportance& p : importance.parameters) {
    widest = std::max(widest, display_width(printable(p.name)));
  }
  const auto row = [&](const std::string& name, double share,
                       const std::string& more) {
    lines.add(
        "importance",
        fmt::format("{}  {:>4.0f}%  {}  {}", pad_right(name, widest),
                    100 * share, progress_bar(share, 20, style.unicode), more));
  };
  for (const ParameterImportance& p : importance.parameters) {
    row(printable(p.name), p.share, place_words(p));
  }
  row("together", importance.together, "interactions of several");
  lines.add("importance",
            fmt::format("(of the variance of {} trials' results at the end, "
                        "functional ANOVA{})",
                        importance.trials,
                        importance.failures == 0
                            ? ""
                            : fmt::format("; {} that broke count as the worst",
                                          importance.failures)));
}

void add_best(Lines& lines, const Study& study,
              const std::vector<TrialId>& best) {
  const ObjectiveSpec& objective = study.recipe.objective;
  for (const TrialId id : best) {
    const Trial& trial = study.trial(id);
    const StepReport& report = *best_report(objective, trial);
    lines.add("best",
              fmt::format("trial {:<4} {} {} at step {}  {}", id,
                          printable(objective.metric),
                          format_metric(metric_of(
                              objective, *objective_value(objective, report))),
                          format_step(report.step, study.horizon),
                          describe_point(study, trial.point)));
  }
  if (best.empty()) {
    lines.add("best", printable(why_no_best(study)));
  }
}

}  // namespace

std::string study_explanation_text(const Study& study,
                                   const StudyExplanation& explanation,
                                   const TextStyle& style, size_t most) {
  Lines lines(style);
  lines.add(
      "study",
      fmt::format("{}: sampler {}, scheduler {}, {}",
                  printable(study.recipe.study), study.recipe.sampler.kind,
                  study.recipe.scheduler.kind, describe_states(study)));
  for (const std::string& line : explanation.tuner) {
    lines.add("tuner", printable(line));
  }
  add_best(lines, study, explanation.best);
  if (explanation.importance) {
    add_importance(lines, *explanation.importance, style);
  } else {
    lines.add("importance", "too few results, or all the same");
  }
  const auto& cuts = explanation.cuts;
  const size_t first = most > 0 && cuts.size() > most ? cuts.size() - most : 0;
  if (first > 0) {
    lines.add("cut", fmt::format("({} before these: --all)", first));
  }
  for (size_t i = first; i < cuts.size(); ++i) {
    lines.add("cut",
              fmt::format("trial {} at step {}: {}{}", cuts[i].decision.trial,
                          format_step(cuts[i].decision.step, study.horizon),
                          printable(cuts[i].decision.why),
                          best_words(study, cuts[i].best)));
  }
  if (cuts.empty()) lines.add("cut", "none by the scheduler");
  if (explanation.paused > 0) {
    lines.add("paused", explanation.paused == 1
                            ? "1 trial waits at its last step"
                            : fmt::format("{} trials wait at their last step",
                                          explanation.paused));
  }
  return lines.take();
}

std::string trial_explanation_text(const Study& study,
                                   const TrialExplanation& explanation,
                                   const TextStyle& style) {
  const Trial& trial = study.trial(explanation.trial);
  Lines lines(style);
  lines.add(
      fmt::format("trial {}", trial.id),
      fmt::format("{} ({}) after step {}",
                  paint(style, color_of(trial.state), state_words(trial.state)),
                  to_string(trial.reason),
                  format_step(trial.steps(), last_step(study, trial))));
  lines.add("point", describe_point(study, trial.point));
  if (!trial.detail.empty()) lines.add("now", printable(trial.detail));
  for (const ExplainedDecision& explained : explanation.decisions) {
    const std::string& why = explained.decision.why;
    lines.add("decisions",
              fmt::format("{}{}{}{}", action_words(explained.decision),
                          why.empty() ? "" : ": ", printable(why),
                          best_words(study, explained.best)));
  }
  for (const std::string& line : explanation.tuner) {
    lines.add("expected", printable(line));
  }
  CurvePlot plot;
  plot.predicted = explanation.predicted;
  plot.last_step = std::max(1, explanation.predicted.empty()
                                   ? trial.steps()
                                   : explanation.predicted.back().step);
  for (const StepReport& report : trial.curve) {
    if (const auto value = objective_value(study.recipe.objective, report)) {
      plot.observed.emplace_back(report.step,
                                 metric_of(study.recipe.objective, *value));
    }
  }
  const auto drawn = draw_curve(plot, style);
  if (!drawn.empty()) {
    lines.gap();
    lines.plain(printable(study.recipe.objective.metric));
    for (const std::string& line : drawn) lines.plain(line);
  }
  return lines.take();
}

}  // namespace dtune
