#include "dtune/review/recording.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

constexpr double kSame = 1e-9;  // relative difference of equal values

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::config, what);
}

bool is_named(const Parameter& parameter, const std::string& name) {
  const size_t dot = parameter.key.rfind('.');
  const std::string last =
      dot == std::string::npos ? parameter.key : parameter.key.substr(dot + 1);
  return last.empty() ? parameter.name == name : last == name;
}

std::string find_axis(const SearchSpace& space, const std::string& name) {
  for (const Parameter& parameter : space.parameters()) {
    if (is_named(parameter, name)) return parameter.name;
  }
  return "";
}

double number_of(const Value& value) {
  const auto number = as_number(value);
  if (!number || !std::isfinite(*number)) {
    refuse(
        fmt::format("space: '{}' is not a number, so it has no place on an "
                    "axis of the cube",
                    to_string(value)));
  }
  return *number;
}

void sort_axis(std::vector<double>& axis) {
  std::sort(axis.begin(), axis.end());
  const auto same = [](double a, double b) {
    return std::abs(a - b) <= kSame * std::max(std::abs(a), std::abs(b));
  };
  axis.erase(std::unique(axis.begin(), axis.end(), same), axis.end());
}

void check_positive(const std::vector<double>& axis, const char* name) {
  if (axis.empty() || axis.front() > 0) return;
  refuse(
      fmt::format("space.{}: reaches {:g}, but the cube's axis is its "
                  "logarithm (begin above 0, e.g. log: [1.0e-6, 1.0e-2])",
                  name, axis.front()));
}

double rounded(double value) {
  return std::stod(fmt::format("{:.12g}", value));
}

std::vector<double> spread(const Parameter& parameter, int points, bool log) {
  std::vector<double> axis;
  if (parameter.kind == ParameterKind::categorical) {
    for (const Value& choice : parameter.choices) {
      axis.push_back(number_of(choice));
    }
    sort_axis(axis);
    return axis;
  }
  if (parameter.kind != ParameterKind::real) {
    refuse(fmt::format("space.{}: is not a real parameter (write e.g. {})",
                       parameter.name,
                       log ? "log: [1.0e-4, 0.1]" : "linear: [0, 0.5]"));
  }
  if (log && parameter.low <= 0) {
    check_positive({parameter.low}, parameter.name.c_str());
  }
  for (int i = 0; i < points; ++i) {
    const double at = points == 1 ? 0.5 : double(i) / (points - 1);
    const double low = parameter.low, high = parameter.high;
    const double value =
        log ? low * std::pow(high / low, at) : low + at * (high - low);
    axis.push_back(rounded(std::clamp(value, low, high)));
  }
  sort_axis(axis);
  return axis;
}

size_t place_of(const std::vector<double>& axis, double value) {
  size_t best = 0;
  for (size_t i = 1; i < axis.size(); ++i) {
    if (std::abs(axis[i] - value) < std::abs(axis[best] - value)) best = i;
  }
  return best;
}

bool holds(const std::vector<double>& axis, double value) {
  if (axis.empty()) return false;
  const double nearest = axis[place_of(axis, value)];
  return std::abs(nearest - value) <=
         2 * kSame * std::max(std::abs(nearest), std::abs(value));
}

double coordinate(const Trial& trial, const std::string& name) {
  return number_of(trial.point.at(name));
}

std::vector<double> logarithms(const std::vector<double>& axis) {
  std::vector<double> logs;
  logs.reserve(axis.size());
  for (const double value : axis) logs.push_back(std::log10(value));
  return logs;
}

void check_objective(const ObjectiveSpec& objective) {
  if (objective.goal == Goal::maximize) return;
  refuse(fmt::format(
      "objective: {} is to be minimized, but curves are recorded of a metric "
      "between 0 and 1 of which more is better (set objective.metric to "
      "val_accuracy)",
      objective.metric));
}

// Puts curves into their places of the cube.
class Recorder {
 public:
  Recorder(const Study& study, const GridAxes& axes,
           const RecordingOptions& options)
      : objective_(study.recipe.objective),
        names_(cube_names(study.recipe.space)),
        axes_(axes),
        epochs_(options.epochs),
        lengths_(axes.size(), 0) {
    curves_.task = options.task;
    curves_.context = options.context;
    curves_.log10_lr = logarithms(axes.lr);
    curves_.log10_l2 = logarithms(axes.l2);
    curves_.dropout = axes.dropout;
    curves_.epochs = options.epochs;
    curves_.values.assign(axes.size() * epochs_.size(), float(options.chance));
  }

  void add(const Trial& trial) {
    const auto cell = cell_of(trial);
    if (!cell) return;
    for (size_t e = 0; e < epochs_.size(); ++e) {
      const auto value = value_at(objective_, trial, epochs_[e]);
      if (!value) break;  // from here on it is at chance
      if (*value < 0 || *value > 1) {
        refuse(
            fmt::format("trial {}: {} is {:g} at step {}, but curves are "
                        "recorded of a metric between 0 and 1",
                        trial.id, objective_.metric, *value, epochs_[e]));
      }
      curves_.values[*cell * epochs_.size() + e] = float(*value);
      lengths_[*cell] = std::max(lengths_[*cell], e + 1);
    }
  }

  Recording finish() {
    Recording recording;
    for (const size_t length : lengths_) {
      if (length == 0) ++recording.missing;
      if (length > 0 && length < epochs_.size()) ++recording.incomplete;
    }
    if (recording.missing == lengths_.size()) {
      throw Error(ErrorKind::study,
                  fmt::format("no trial has a finite {} at step {}: there is "
                              "nothing to record",
                              objective_.metric, epochs_.front()));
    }
    recording.curves = std::move(curves_);
    return recording;
  }

 private:
  // Empty for a point beside the grid.
  std::optional<size_t> cell_of(const Trial& trial) const {
    const double lr = coordinate(trial, names_.lr);
    const double l2 = coordinate(trial, names_.l2);
    const double dropout = coordinate(trial, names_.dropout);
    if (!holds(axes_.lr, lr) || !holds(axes_.l2, l2) ||
        !holds(axes_.dropout, dropout)) {
      return std::nullopt;
    }
    const size_t row =
        place_of(axes_.lr, lr) * axes_.l2.size() + place_of(axes_.l2, l2);
    return row * axes_.dropout.size() + place_of(axes_.dropout, dropout);
  }

  const ObjectiveSpec& objective_;
  const CubeNames names_;
  const GridAxes& axes_;
  const std::vector<int>& epochs_;
  std::vector<size_t> lengths_;  // of each cell's curve, in epochs
  RecordedCurves curves_;
};

}  // namespace

CubeNames cube_names(const SearchSpace& space) {
  CubeNames names{find_axis(space, "lr"), find_axis(space, "l2"),
                  find_axis(space, "dropout")};
  const bool all =
      !names.lr.empty() && !names.l2.empty() && !names.dropout.empty();
  if (all && space.dimensions() == 3) return names;
  std::string found;
  for (const Parameter& parameter : space.parameters()) {
    found += (found.empty() ? "" : ", ") + parameter.name;
  }
  refuse(fmt::format(
      "space: curves are recorded on a cube of exactly lr, l2 and dropout, but "
      "the space is made of {} (write space: {{ lr: {{ log: [1.0e-4, 0.1] }}, "
      "l2: {{ log: [1.0e-6, 1.0e-2] }}, dropout: {{ linear: [0, 0.6] }} }} and "
      "set everything else to one value)",
      found.empty() ? "nothing" : found));
}

GridAxes axes_of_space(const SearchSpace& space, const CubeNames& names,
                       const std::array<int, 3>& points) {
  const auto axis = [&](const std::string& name, int count, bool log) {
    const Parameter& parameter = space.parameters()[*space.find(name)];
    std::vector<double> values = spread(parameter, count, log);
    if (log) check_positive(values, name.c_str());
    return values;
  };
  return {axis(names.lr, points[0], true), axis(names.l2, points[1], true),
          axis(names.dropout, points[2], false)};
}

GridAxes axes_of_trials(const Study& study) {
  const CubeNames names = cube_names(study.recipe.space);
  GridAxes axes;
  size_t trials = 0;
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search || trial.point.size() != 3) continue;
    axes.lr.push_back(coordinate(trial, names.lr));
    axes.l2.push_back(coordinate(trial, names.l2));
    axes.dropout.push_back(coordinate(trial, names.dropout));
    ++trials;
  }
  for (auto* axis : {&axes.lr, &axes.l2, &axes.dropout}) sort_axis(*axis);
  check_positive(axes.lr, names.lr.c_str());
  check_positive(axes.l2, names.l2.c_str());
  if (trials == 0 || 2 * trials < axes.size()) {
    refuse(fmt::format(
        "the study is not a grid: its {} trials have {} x {} x {} different "
        "values of lr, l2 and dropout (give 'dtune record' the recipe: it "
        "trains a grid)",
        trials, axes.lr.size(), axes.l2.size(), axes.dropout.size()));
  }
  return axes;
}

namespace {

// It failed for what happened to its process, which says nothing of its point.
bool is_lost(const Trial& trial) {
  switch (trial.reason) {
    case Reason::crashed:
    case Reason::out_of_memory:
    case Reason::lease_lapsed:
    case Reason::node_lost:
    case Reason::killed:
    case Reason::wall_clock:
      return trial.state != TrialState::complete;
    default:
      return false;
  }
}

}  // namespace

Recording record_curves(const Study& study, const GridAxes& axes,
                        const RecordingOptions& options) {
  check_objective(study.recipe.objective);
  size_t lost = 0;
  Recorder recorder(study, axes, options);
  for (const Trial& trial : study.trials) {
    if (trial.kind == TrialKind::search && trial.point.size() == 3) {
      recorder.add(trial);
      if (is_lost(trial)) ++lost;
    }
  }
  Recording recording = recorder.finish();
  recording.lost = lost;
  return recording;
}

Recording merge_repeats(std::vector<Recording> recordings) {
  Recording merged = recordings.front();
  if (recordings.size() == 1) return merged;
  RecordedCurves& mean = merged.curves;
  std::vector<double> sums(mean.values.size(), 0);
  merged.missing = merged.incomplete = merged.lost = 0;
  for (Recording& one : recordings) {
    RecordedCurves& curves = one.curves;
    if (curves.log10_lr != mean.log10_lr || curves.log10_l2 != mean.log10_l2 ||
        curves.dropout != mean.dropout || curves.epochs != mean.epochs ||
        curves.task != mean.task) {
      refuse(
          "the studies are not repeats of one grid: their points, steps or "
          "names differ (record each with the same recipe, and another "
          "seed)");
    }
    merged.missing += one.missing;
    merged.incomplete += one.incomplete;
    merged.lost += one.lost;
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += curves.values[i];
    mean.repeats.push_back(std::move(curves.values));
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    mean.values[i] = float(sums[i] / double(recordings.size()));
  }
  mean.weigh();
  return merged;
}

std::vector<int> default_epochs(int horizon, size_t most) {
  std::vector<int> epochs;
  if (static_cast<size_t>(horizon) <= most) {
    for (int step = 1; step <= horizon; ++step) epochs.push_back(step);
    return epochs;
  }
  const double growth = std::pow(horizon, 1.0 / double(most - 1));
  double at = 1;
  for (size_t i = 0; i < most; ++i, at *= growth) {
    const int step =
        std::min(horizon, std::max(epochs.empty() ? 1 : epochs.back() + 1,
                                   static_cast<int>(std::lround(at))));
    if (epochs.empty() || step > epochs.back()) epochs.push_back(step);
  }
  epochs.back() = horizon;
  return epochs;
}

}  // namespace dtune
