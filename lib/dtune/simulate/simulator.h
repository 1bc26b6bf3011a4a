// Runs a whole study on recorded curves, in virtual time: the same samplers and
// schedulers as `dtune run`, without a network.
#pragma once

#include <cstdint>
#include <vector>

#include "dtune/curves/recorded_curves.h"
#include "dtune/study/tuner.h"

namespace dtune {

struct SimulationOptions {
  uint64_t seed = 0;
  int slots = 1;
  double noise = 0;  // standard deviation added to every observation
  std::vector<int64_t> budgets = {51, 102, 204, 408, 612, 1020};  // in steps
};

struct SimulationResult {
  // (best - found) / (best - median) at each budget; found: the true value of
  // the trial and step that the study holds for the best. 1 where nothing was
  // found.
  std::vector<double> regret;
  int trials = 0;
  int64_t decisions = 0;
  int cuts = 0;
  int cuts_wrong = 0;  // would have beaten the final incumbent at the horizon
};

// The recipe of a simulated study: the cube of the curves, the sampler and
// scheduler as named, `seed`.
Recipe simulated_recipe(const RecordedCurves& curves,
                        const std::string& sampler,
                        const std::string& scheduler, uint64_t seed);

// Deterministic. Each step takes one unit of virtual time on one of the slots;
// the study ends when the largest budget is spent or the scheduler finishes.
SimulationResult simulate(const RecordedCurves& curves, const Recipe& recipe,
                          Sampler& sampler, Scheduler& scheduler,
                          const SimulationOptions& options);

}  // namespace dtune
