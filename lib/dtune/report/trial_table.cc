#include "dtune/report/trial_table.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "dtune/base/order_statistic.h"
#include "dtune/report/facts.h"

namespace dtune {
namespace {

constexpr int kCurveWidth = 12;

std::vector<double> curve_of(const ObjectiveSpec& objective,
                             const Trial& trial) {
  std::vector<double> values;
  for (const StepReport& report : trial.curve) {
    const auto found = report.metrics.find(objective.metric);
    values.push_back(found == report.metrics.end() ? std::nan("")
                                                   : found->second);
  }
  return values;
}

std::string shown(const ObjectiveSpec& objective,
                  std::optional<double> objective_value) {
  return objective_value ? format_metric(metric_of(objective, *objective_value))
                         : "";
}

std::string last_shown(const ObjectiveSpec& objective, const Trial& trial) {
  if (trial.curve.empty()) return "";
  const auto& metrics = trial.curve.back().metrics;
  const auto found = metrics.find(objective.metric);
  return found == metrics.end() ? "" : format_metric(found->second);
}

bool has_several_nodes(const Study& study) {
  std::string_view first;
  for (const Trial& trial : study.trials) {
    if (trial.node.empty()) continue;
    if (first.empty()) first = trial.node;
    if (trial.node != first) return true;
  }
  return false;
}

// Where it runs, or why it is as it is, in a word.
std::string why_of(const Trial& trial, bool with_node) {
  switch (trial.state) {
    case TrialState::running:
      if (trial.slot < 0) return "";  // run by the program that asked
      return with_node && !trial.node.empty()
                 ? fmt::format("{} slot {}", printable(trial.node), trial.slot)
                 : fmt::format("slot {}", trial.slot);
    case TrialState::waiting:
    case TrialState::complete:
      return "";
    default:
      return trial.reason == Reason::none ? "" : to_string(trial.reason);
  }
}

std::vector<TableColumn> columns_of(const Study& study, bool with_node) {
  std::vector<TableColumn> columns = {
      {"", false, 0, 1},      {"trial", true, 0, 7},
      {"state", false, 1, 9}, {"curve", false, 6, kCurveWidth},
      {"step", true, 2, 11},  {"last", true, 3, 9},
      {"best", true, 0, 9},
  };
  int rank = 10;  // the recipe's later parameters go first
  for (const Parameter& parameter : study.recipe.space.parameters()) {
    columns.push_back({printable(parameter.name), true, rank++, 12});
  }
  columns.push_back({"why", false, 8, with_node ? 28 : 12});
  columns.push_back({"note", false, rank + 1000, 60});
  return columns;
}

TableRow row_of(const Study& study, const Trial& trial, const Trial* best,
                const Scale& scale, bool with_node, bool unicode) {
  const ObjectiveSpec& objective = study.recipe.objective;
  const bool is_best = &trial == best;
  const Color color = color_of(trial.state);
  const Color strong = is_best ? Color::bold : Color::none;
  TableRow row = {
      {is_best ? "*" : "", Color::green},
      {std::to_string(trial.id), strong},
      {trial.kind == TrialKind::search ? state_words(trial.state)
                                       : to_string(trial.kind),
       color},
      {sparkline(curve_of(objective, trial), scale, kCurveWidth, unicode),
       Color::cyan},
      {format_step(trial.steps(), last_step(study, trial)), Color::none},
      {last_shown(objective, trial), Color::none},
      {shown(objective, best_value(objective, trial)), strong},
  };
  for (const Parameter& parameter : study.recipe.space.parameters()) {
    row.push_back({format_parameter(trial.point, parameter.name), Color::none});
  }
  row.push_back({why_of(trial, with_node), Color::dim});
  row.push_back({printable(trial.detail), Color::dim});
  return row;
}

}  // namespace

Color color_of(TrialState state) {
  switch (state) {
    case TrialState::running:
      return Color::cyan;
    case TrialState::complete:
      return Color::green;
    case TrialState::paused:
    case TrialState::waiting:
      return Color::blue;
    case TrialState::cut:
      return Color::dim;
    case TrialState::failed:
    case TrialState::lost:
    case TrialState::timed_out:
    case TrialState::invalid:
      return Color::red;
  }
  return Color::none;
}

std::string state_words(TrialState state) {
  std::string words = to_string(state);
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

std::vector<const Trial*> order_for_display(const Study& study) {
  struct Entry {
    bool idle;
    bool without_value;
    double worse;  // the best value, negated
    const Trial* trial;
  };
  std::vector<Entry> entries;
  for (const Trial& trial : study.trials) {
    const bool running = trial.state == TrialState::running;
    const auto value = has_results(study, trial)
                           ? best_value(study.recipe.objective, trial)
                           : std::nullopt;
    entries.push_back({!running, !running && !value,
                       running || !value ? 0 : -*value, &trial});
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) {
                     return std::tie(a.idle, a.without_value, a.worse) <
                            std::tie(b.idle, b.without_value, b.worse);
                   });
  std::vector<const Trial*> trials;
  trials.reserve(entries.size());
  for (const Entry& entry : entries) trials.push_back(entry.trial);
  return trials;
}

Scale curve_scale(const ObjectiveSpec& objective,
                  const std::vector<const Trial*>& trials) {
  std::vector<double> values;
  for (const Trial* trial : trials) {
    for (const StepReport& report : trial->curve) {
      const auto value = objective_value(objective, report);
      if (value) values.push_back(*value);
    }
  }
  if (values.empty()) return {};
  // One diverged trial must not flatten all others.
  const double tenth = order_statistic(values, values.size() / 10);
  const double worst = metric_of(objective, tenth);
  const double best =
      metric_of(objective, *std::max_element(values.begin(), values.end()));
  return {std::min(worst, best), std::max(worst, best)};
}

std::vector<std::string> trial_table(const Study& study,
                                     const std::vector<const Trial*>& trials,
                                     const Trial* best,
                                     const TextStyle& style) {
  const Scale scale = curve_scale(study.recipe.objective, trials);
  const bool with_node = has_several_nodes(study);
  std::vector<TableRow> rows;
  rows.reserve(trials.size());
  for (const Trial* trial : trials) {
    rows.push_back(
        row_of(study, *trial, best, scale, with_node, style.unicode));
  }
  return render_table(columns_of(study, with_node), rows, style);
}

}  // namespace dtune
