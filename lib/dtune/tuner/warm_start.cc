#include "dtune/tuner/warm_start.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/text.h"
#include "dtune/space/point_table.h"
#include "dtune/tuner/cube_map.h"
#include "dtune/tuner/curve_smoothing.h"
#include "dtune/tuner/metric_scale.h"
#include "dtune/tuner/surrogate_model.h"

namespace dtune {
namespace {

struct OldReport {
  WarmObservation observation;
  bool last = false;  // of its trial
};

Point known_part(const SearchSpace& space, const Point& point) {
  Point known;
  for (const auto& [name, value] : point) {
    if (space.find(name)) known[name] = value;
  }
  return known;
}

// Of one trial; values in the metric's units, larger being better.
void read_trial(const Recipe& present, const WarmStudy& old, const Trial& trial,
                std::vector<OldReport>& reports) {
  const Point point = known_part(present.space, trial.point);
  if (trial.kind != TrialKind::search || !present.space.valid(point) ||
      !old.recipe.space.valid(trial.point)) {
    return;
  }
  const bool open = old.horizon == kOpenHorizon;
  const std::vector<int> ladder = make_ladder(old.horizon);
  const CubePoint cube =
      CubeMap(old.recipe).cube_point(old.recipe.space.encode(trial.point));
  const size_t before = reports.size();
  for (const StepReport& report : trial.curve) {
    const bool last = report.step == trial.steps();
    const bool counts =
        open ? report.last
             : last || std::binary_search(ladder.begin(), ladder.end(),
                                          report.step);
    const ObjectiveSpec& objective = old.recipe.objective;
    if (!counts || !objective_value(objective, report)) continue;
    const double share = open ? 1.0 : double(report.step) / old.horizon;
    reports.push_back(
        {{present.space.encode(point), cube, std::clamp(share, 1e-9, 1.0),
          smoothed_objective(objective, trial, report.step), trial.id}});
  }
  if (reports.size() > before) reports.back().last = true;
}

using Cells = std::map<std::string, std::string>;

double number_of(const std::string& cell, const std::string& column,
                 const std::string& where) {
  if (const auto value = parse_number<double>(cell)) return *value;
  throw Error(ErrorKind::config,
              fmt::format("{}: '{}' in column '{}' is not a number", where,
                          cell, column));
}

// The first of these columns that there is; "": none.
std::string column_of(const Cells& cells,
                      std::initializer_list<std::string> names) {
  for (const std::string& name : names) {
    if (cells.contains(name)) return name;
  }
  return "";
}

struct WarmColumns {
  std::string metric;
  std::string step;   // or ""
  std::string trial;  // or ""
};

WarmColumns columns_of(const Cells& cells, const std::string& metric,
                       const std::string& name) {
  WarmColumns columns = {column_of(cells, {metric, "value"}),
                         column_of(cells, {"step"}),
                         column_of(cells, {"trial", "number"})};
  if (!columns.metric.empty()) return columns;
  throw Error(ErrorKind::config,
              fmt::format("{}:1:1: no column is called '{}', the objective's "
                          "metric (or 'value')",
                          name, metric));
}

// Trials of rows, by what is in the column `trial`.
class WarmTable {
 public:
  explicit WarmTable(WarmStudy& study) : study_(study) {}

  void add(const PointRow& row, const WarmColumns& columns,
           const std::string& where) {
    const std::string& cell = row.others.at(columns.metric);
    if (cell.empty() || !is_of_search(row)) return;
    StepReport report;
    report.metrics[study_.recipe.objective.metric] =
        number_of(cell, columns.metric, where);
    report.last = columns.step.empty();
    report.step = 1;
    if (!columns.step.empty()) {
      const double step =
          number_of(row.others.at(columns.step), columns.step, where);
      report.step = static_cast<int>(std::clamp(step, 1.0, 1e9));
      study_.horizon = std::max(study_.horizon, report.step);
    }
    trial_of(row, columns).curve.push_back(std::move(report));
  }

 private:
  // `dtune export --csv` also has the final trainings, in its column `kind`.
  static bool is_of_search(const PointRow& row) {
    const auto kind = row.others.find("kind");
    return kind == row.others.end() ||
           parse_trial_kind(kind->second) == TrialKind::search;
  }

  Trial& trial_of(const PointRow& row, const WarmColumns& columns) {
    const std::string key = columns.trial.empty() || columns.step.empty()
                                ? fmt::format("line {}", row.line)
                                : row.others.at(columns.trial);
    const auto [found, fresh] = trials_.emplace(key, study_.trials.size());
    if (fresh) {
      study_.trials.emplace_back();
      study_.trials.back().id = std::ssize(study_.trials);
      study_.trials.back().point = row.point;
    }
    return study_.trials[found->second];
  }

  WarmStudy& study_;
  std::map<std::string, size_t> trials_;
};

}  // namespace

WarmStudy read_warm_table(const std::string& text, const std::string& name,
                          const Recipe& present) {
  const std::vector<PointRow> rows =
      read_point_table(text, name, present.space);
  WarmStudy study;
  study.name = name;
  study.recipe = present;
  if (rows.empty()) return study;
  const WarmColumns columns =
      columns_of(rows[0].others, present.objective.metric, name);
  if (columns.step.empty()) study.horizon = kOpenHorizon;
  WarmTable table(study);
  for (const PointRow& row : rows) {
    table.add(row, columns, fmt::format("{}:{}:1", name, row.line));
  }
  for (Trial& trial : study.trials) {
    std::stable_sort(trial.curve.begin(), trial.curve.end(),
                     [](const StepReport& a, const StepReport& b) {
                       return a.step < b.step;
                     });
  }
  return study;
}

void check_warm_study(const Recipe& present, const WarmStudy& old) {
  const ObjectiveSpec& ours = present.objective;
  const ObjectiveSpec& theirs = old.recipe.objective;
  if (ours.metric == theirs.metric && ours.goal == theirs.goal) return;
  throw Error(
      ErrorKind::config,
      fmt::format("warm_start: {}: its objective is to {} {}, this study's to "
                  "{} {} (leave it out of the list)",
                  old.name, to_string(theirs.goal), theirs.metric,
                  to_string(ours.goal), ours.metric));
}

std::vector<WarmObservation> warm_observations(const Recipe& present,
                                               const WarmStudy& old,
                                               size_t most) {
  std::vector<OldReport> reports;
  for (const Trial& trial : old.trials) {
    read_trial(present, old, trial, reports);
  }
  std::stable_sort(reports.begin(), reports.end(),
                   [](const OldReport& a, const OldReport& b) {
                     if (a.last != b.last) return a.last;
                     return a.observation.value > b.observation.value;
                   });
  // Levels differ between data sets; what is good and bad in each is compared.
  std::vector<double> values;
  values.reserve(reports.size());
  for (const OldReport& r : reports) values.push_back(r.observation.value);
  const MetricScale scale(present.objective, values);
  if (reports.size() > most) reports.resize(most);
  std::vector<WarmObservation> result;
  for (OldReport& r : reports) {
    r.observation.value = scale.to_model(r.observation.value);
    if (!std::isfinite(r.observation.value)) continue;  // out of doubles' range
    result.push_back(std::move(r.observation));
  }
  return result;
}

}  // namespace dtune
