#include "dtune/report/summary.h"

#include <algorithm>
#include <climits>
#include <cmath>

#include <fmt/format.h>

#include "dtune/report/table.h"
#include "dtune/report/trial_table.h"
#include "dtune/study/command_words.h"
#include "dtune/study/pareto.h"

namespace dtune {
namespace {

constexpr size_t kMostFailures = 5;

// "best     text": a line with a label in a column of its own.
std::string labelled(const TextStyle& style, const char* label,
                     std::string_view text) {
  return paint(style, Color::dim, pad_right(label, 9)) + std::string(text) +
         '\n';
}

std::string goal_text(const ObjectiveSpec& objective) {
  return fmt::format("{} {}", to_string(objective.goal),
                     printable(objective.metric));
}

// Metrics whose names start with a prefix: "accuracy 0.91, loss 0.24".
std::string metrics_text(const std::map<std::string, double>& metrics,
                         const std::string& prefix) {
  std::string text;
  for (const auto& [name, value] : metrics) {
    if (name.compare(0, prefix.size(), prefix) != 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                        printable(name.substr(prefix.size())),
                        format_metric(value));
  }
  return text;
}

std::string best_lines(const Study& study, const StudyFacts& facts,
                       const TextStyle& style) {
  const ObjectiveSpec& objective = study.recipe.objective;
  const Trial* best = chosen_trial(study, facts);
  if (best == nullptr) {
    return labelled(style, "best", "none: " + printable(why_no_best(study)));
  }
  const StepReport& report = *best_report(objective, *best);
  const std::string value =
      format_metric(metric_of(objective, *objective_value(objective, report)));
  return labelled(style, "best",
                  fmt::format("{} {}  (trial {}, step {})",
                              printable(objective.metric),
                              paint(style, Color::bold, value), best->id,
                              format_step(report.step, study.horizon))) +
         labelled(style, "", describe_point(study, best->point));
}

// "trial 9, step 3/4".
std::string kept_step(const Study& study, const FinalResult& model) {
  std::string trial = fmt::format("trial {}", model.final_trial);
  if (model.step == 0) return trial;
  const int last = last_step(study, study.trial(model.final_trial));
  return trial + ", step " + format_step(model.step, last);
}

// Why the best of a search is that trial, where no model is kept.
std::string chosen_words(const Study& study, const StudyFacts& facts) {
  const Trial* best = chosen_trial(study, facts);
  const bool decided =
      best != nullptr && facts.result && facts.result->best == best->id;
  return decided ? facts.result->chosen : "";
}

std::string result_lines(const Study& study, const StudyFacts& facts,
                         const TextStyle& style) {
  const FinalResult* model = shipped_model(study, facts);
  if (model == nullptr) {
    const std::string why = chosen_words(study, facts);
    return why.empty() ? "" : labelled(style, "why", printable(why));
  }
  std::string text;
  const std::string validation = metrics_text(model->metrics, "val_");
  const std::string test = metrics_text(model->metrics, "test_");
  if (!validation.empty()) {
    text += labelled(style, "final",
                     fmt::format("{} on validation ({})", validation,
                                 kept_step(study, *model)));
  }
  if (!test.empty()) {
    text += labelled(style, "test", paint(style, Color::bold, test));
  }
  if (!model->model.empty()) {
    text += labelled(style, "model", printable(model->model));
  }
  if (!model->chosen.empty()) {
    text += labelled(style, "why", printable(model->chosen));
  }
  return text;
}

// "crashed: killed by signal 9". What a program wrote last stands at its end.
std::string cause_of(const Trial& trial) {
  return trial.detail.empty() ? to_string(trial.reason)
                              : fmt::format("{}: {}", to_string(trial.reason),
                                            printable(trial.detail));
}

std::string failure_lines(const Study& study, const TextStyle& style) {
  const std::vector<const Trial*> failed = failed_trials(study);
  std::string text;
  for (size_t i = 0; i < std::min(failed.size(), kMostFailures); ++i) {
    const Trial& trial = *failed[i];
    text +=
        labelled(style, i == 0 ? "failures" : "",
                 fit_both_ends(fmt::format("trial {} {} at step {}, {}",
                                           trial.id, state_words(trial.state),
                                           trial.steps(), cause_of(trial)),
                               std::max(40, style.columns - 9), style.unicode));
  }
  if (failed.size() > kMostFailures) {
    text += labelled(style, "",
                     fmt::format("and {} more", failed.size() - kMostFailures));
  }
  return text;
}

std::string heading(const Study& study, const StudyFacts& facts,
                    const TextStyle& style) {
  std::string text =
      paint(style, Color::bold, printable(study.recipe.study)) +
      fmt::format(": {} after {} of searching", to_string(study.state),
                  format_seconds(study.searched_seconds));
  const std::string why = why_ended(study, facts);
  if (!why.empty()) text += fmt::format(" ({})", printable(why));
  return text + '\n';
}

// "17 of 40 trials, 3m of 10m, 120 steps"; "1 step".
std::string budget_text(const Study& study, const StudyFacts& facts) {
  const auto part = [](const std::string& used, const std::string& granted,
                       bool limited, const char* unit) {
    if (limited) return fmt::format("{} of {}{}s", used, granted, unit);
    return used + unit + (used == "1" ? "" : "s");
  };
  return part(format_count(trials_spent(study)),
              format_count(facts.budget_trials), facts.budget_trials > 0,
              " trial") +
         ", " + format_seconds(study.searched_seconds) +
         (facts.budget_seconds > 0
              ? " of " + format_seconds(facts.budget_seconds)
              : "") +
         ", " +
         part(format_count(steps_spent(study)),
              format_count(facts.budget_steps), facts.budget_steps > 0,
              " step");
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

// A table of all metrics over the steps.
std::string curve_lines(const Trial& trial, const TextStyle& style) {
  if (trial.curve.empty()) return "";
  const auto& names = trial.curve.back().metrics;
  std::vector<TableColumn> columns = {{"step", true, 0, 11},
                                      {"time", true, 1, 9}};
  int rank = 2;
  for (const auto& [name, last] : names) {
    columns.push_back({printable(name), true, rank++, 16});
  }
  std::vector<TableRow> rows;
  for (const StepReport& report : trial.curve) {
    TableRow row = {{std::to_string(report.step), Color::none},
                    {fmt::format("{:.2f}s", report.seconds), Color::none}};
    for (const auto& [name, last] : names) {
      const auto found = report.metrics.find(name);
      const bool known = found != report.metrics.end();
      row.push_back({known ? format_metric(found->second) : "", Color::none});
    }
    rows.push_back(std::move(row));
  }
  return '\n' + joined(render_table(columns, rows, style));
}

std::string resting_lines(const StudyFacts& facts, const TextStyle& style) {
  std::string text;
  for (const RestingNode& one : facts.resting) {
    text += labelled(
        style, "resting",
        fmt::format("node {} is given no trial for another {}: {} attempts in "
                    "a row failed there",
                    printable(one.node),
                    format_duration(from_seconds(std::ceil(one.seconds_left))),
                    one.failures));
  }
  return text;
}

std::string event_lines(const Study& study,
                        const std::vector<TrialEvent>& events) {
  std::string text = events.empty() ? "" : "\n";
  for (const TrialEvent& event : events) {
    const double since =
        static_cast<double>(event.wall_ms - study.created_ms) / 1000;
    text += fmt::format(
        "{:>10.1f}s  attempt {}  {:<9} {}{}\n", since, event.attempt,
        state_words(event.state), to_string(event.reason),
        event.detail.empty() ? "" : ": " + printable(event.detail));
  }
  return text;
}

}  // namespace

std::string summary_text(const Study& study, const StudyFacts& facts,
                         const TextStyle& style) {
  return heading(study, facts, style) + '\n' + best_lines(study, facts, style) +
         result_lines(study, facts, style) +
         labelled(style, "search", describe_states(study)) +
         failure_lines(study, style) +
         labelled(style, "study", printable(facts.database)) + '\n' +
         labelled(style, "next",
                  paint(style, Color::cyan, next_command(study, facts)));
}

std::string status_text(const Study& study, const StudyFacts& facts,
                        const TextStyle& style, int most) {
  std::string text =
      heading(study, facts, style) +
      labelled(style, "goal", goal_text(study.recipe.objective)) +
      labelled(style, "spent", budget_text(study, facts)) +
      best_lines(study, facts, style) + result_lines(study, facts, style) +
      labelled(style, "search", describe_states(study)) +
      (facts.tuner.empty() ? ""
                           : labelled(style, "tuner", printable(facts.tuner))) +
      failure_lines(study, style) + resting_lines(facts, style) + '\n';
  std::vector<const Trial*> trials = order_for_display(study);
  const size_t all = trials.size();
  if (all == 0) return text;
  if (most > 0) trials.resize(std::min(all, static_cast<size_t>(most)));
  text += joined(trial_table(study, trials, chosen_trial(study, facts), style));
  if (trials.size() < all) {
    text += fmt::format("  and {} more\n", all - trials.size());
  }
  return text;
}

std::string best_text(const Study& study, const StudyFacts& facts,
                      const TextStyle& style) {
  std::string text = best_lines(study, facts, style);
  const Trial* best = chosen_trial(study, facts);
  if (best == nullptr) return text;
  text += result_lines(study, facts, style);
  text += labelled(style, "study", printable(facts.database));
  if (!is_run_by_others(study.recipe)) {
    text += "\ntrain it again:\n  " + again_command(study, facts) + '\n';
  }
  if (study.recipe.command) return text;
  text +=
      "\nto fix it in a recipe (options of dtune run, with another --db):\n";
  for (const Parameter& parameter : study.recipe.space.parameters()) {
    const auto found = best->point.find(parameter.name);
    if (found == best->point.end()) continue;  // inactive
    text += fmt::format("  --set space.{}={}\n", printable(parameter.name),
                        shell_quoted(to_string(found->second)));
  }
  return text;
}

std::string trial_text(const Study& study, const Trial& trial,
                       const std::vector<TrialEvent>& events,
                       const TextStyle& style) {
  std::string text = fmt::format(
      "trial {} of {}: {}\n", trial.id, printable(study.recipe.study),
      paint(style, color_of(trial.state), state_words(trial.state)));
  text += labelled(style, "reason", cause_of(trial));
  text += labelled(style, "params", describe_point(study, trial.point));
  text += labelled(style, "steps",
                   format_step(trial.steps(), last_step(study, trial)));
  if (!trial.checkpoint.empty()) {
    text += labelled(style, "saved",
                     fmt::format("{} (step {})", printable(trial.checkpoint),
                                 trial.checkpoint_step));
  }
  return text + curve_lines(trial, style) + event_lines(study, events);
}

StudyListing listing_of(const Study& study, const StudyRow& row,
                        const std::string& database) {
  StudyListing listing;
  listing.database = database;
  listing.row = row;
  for (const Trial& trial : study.trials) {
    listing.trials += trial.kind == TrialKind::search ? 1 : 0;
  }
  const ObjectiveSpec& objective = study.recipe.objective;
  if (const Trial* best = chosen_trial(study, facts_of(row, database))) {
    listing.best = metric_of(objective, best_value(objective, *best).value());
  }
  return listing;
}

std::string ls_text(const std::vector<StudyListing>& studies,
                    const TextStyle& style) {
  if (studies.empty()) return "no studies here\n";
  const std::vector<TableColumn> columns = {
      {"file", false, 0, 40}, {"study", false, 4, 24}, {"state", false, 1, 11},
      {"trials", true, 2, 9}, {"time", true, 3, 9},    {"metric", false, 5, 20},
      {"best", true, 1, 10}};
  std::vector<TableRow> rows;
  std::string problems;
  for (const StudyListing& s : studies) {
    if (!s.problem.empty()) {
      problems += paint(style, Color::red, printable(s.problem)) + '\n';
      continue;
    }
    const bool stopped = s.row.state == StudyState::running && !s.held;
    rows.push_back({{printable(s.database), Color::none},
                    {printable(s.row.name), Color::none},
                    {stopped ? "stopped" : to_string(s.row.state),
                     stopped ? Color::yellow : Color::none},
                    {format_count(s.trials), Color::none},
                    {format_seconds(s.row.searched_seconds), Color::none},
                    {printable(s.row.metric), Color::none},
                    {s.best ? format_metric(*s.best) : "", Color::bold}});
  }
  const std::string table =
      rows.empty() ? "" : joined(render_table(columns, rows, style));
  return table + problems;
}

std::string pareto_text(const Study& study, const TextStyle& style) {
  const ObjectiveSpec& objective = study.recipe.objective;
  std::vector<TableColumn> columns = {{"trial", true, 0, 8},
                                      {printable(objective.metric), true, 1}};
  for (const TradeOff& other : objective.trade_offs) {
    columns.push_back({printable(other.metric), true, 2});
  }
  columns.push_back({"point", false, 3, INT_MAX});
  std::vector<TableRow> rows;
  for (const TradedOff& one : pareto_front(study)) {
    const auto& metrics = one.report->metrics;
    TableRow row = {{std::to_string(one.trial->id), Color::none},
                    {format_metric(metrics.at(objective.metric)), Color::bold}};
    for (const TradeOff& other : objective.trade_offs) {
      row.push_back({format_metric(metrics.at(other.metric)), Color::none});
    }
    row.push_back({describe_point(study, one.trial->point), Color::none});
    rows.push_back(std::move(row));
  }
  if (rows.empty()) {
    return incumbent(study) == nullptr
               ? printable(why_no_best(study)) + '\n'
               : "no trial has reported all of these metrics\n";
  }
  return joined(render_table(columns, rows, style));
}

}  // namespace dtune
