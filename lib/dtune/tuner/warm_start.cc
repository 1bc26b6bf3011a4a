#include "dtune/tuner/warm_start.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/tuner/cube_map.h"
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

// Of one trial; values as reported, larger is better.
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
    const auto value = objective_value(old.recipe.objective, report);
    if (!counts || !value) continue;
    const double share = open ? 1.0 : double(report.step) / old.horizon;
    reports.push_back({{present.space.encode(point), cube,
                        std::clamp(share, 1e-9, 1.0), *value}});
  }
  if (reports.size() > before) reports.back().last = true;
}

}  // namespace

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
