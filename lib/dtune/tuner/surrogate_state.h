// The parts of a SurrogateModel's state. A private header.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dtune/study/study.h"
#include "dtune/surrogate/correction_field.h"
#include "dtune/surrogate/freeze_thaw_process.h"
#include "dtune/tuner/metric_scale.h"

namespace dtune {

// A report on the ladder, as taken in.
struct SurrogateReport {
  TrialId trial = 0;
  int step = 0;
  int64_t sequence = 0;
  // Larger is better, in the metric's units; without its noise
  // (curve_smoothing.h).
  double value = 0;
  ProcessInput input;
};

struct SurrogateMember {
  std::string name;
  size_t process = 0;
  bool corrected = false;  // by the network
  double log_weight = 0;
};

// What the processes have seen.
struct Observed {
  ProcessObservation observation;
  TrialId trial = 0;
  int step = 0;
  double value = 0;  // as SurrogateReport::value
};

inline std::vector<ProcessObservation> observations_of(
    std::span<const Observed> all) {
  std::vector<ProcessObservation> observations;
  observations.reserve(all.size());
  for (const Observed& o : all) observations.push_back(o.observation);
  return observations;
}

// A model that is made anew from the first reports, while the present one goes
// on: its processes are fitted a little with each further report.
struct SurrogateRefit {
  size_t base = 0;  // reports
  MetricScale scale;
  std::vector<Observed> observed;
  std::vector<FreezeThawProcess> processes;
  std::vector<FreezeThawProcess::Fit> fits;  // by process

  void step() {
    for (FreezeThawProcess::Fit& fit : fits) fit.step();
  }
};

// At most 300: half of them are the best of the last observations of each
// trial, so that the choice near the leader is sharp; the other half are evenly
// spread over the rest, last ones first.
std::vector<Observed> thinned_out(std::vector<Observed> all);

// One a parameter; at least one.
std::vector<ProcessDimension> dimensions_of(const SearchSpace& space);

// The network's corrections, [frame][voxel] of the grid.
struct NetworkAnswer {
  FeatureGrid grid;
  std::vector<Correction> corrections;

  Correction at(const ProcessInput& input) const {
    return interpolate(grid, corrections, input.cube, input.time);
  }
};

// The state after the last update, with what is still to come fantasized.
struct SurrogateView {
  std::vector<FreezeThawProcess> processes;
  // Of few observations and nothing fantasized, for a first look at many
  // queries; once asked for.
  std::vector<FreezeThawProcess> sketches;
  std::vector<double> best;     // expected z of the leader, by process
  std::vector<Leader> leaders;  // by process
  std::shared_ptr<const NetworkAnswer> answer;  // once asked for
};

}  // namespace dtune
