// Where the rungs of ASHA and Hyperband lie, by the options of a recipe (see
// schedulers.h).
#pragma once

#include <vector>

#include "dtune/study/recipe.h"
#include "dtune/tuner/rungs.h"

namespace dtune {

// Throw Error(config) on options that do not fit.
Rungs asha_ladder(const Recipe& recipe, int horizon);
Rungs hyperband_ladder(const Recipe& recipe, int horizon);

// min_steps eta^k, then the horizon; a rung within a fifth of the horizon is
// left out, as it would save nothing.
std::vector<int> asha_rungs(int horizon, int eta, int min_steps);
// Where steps are levels, each of twice the images of the one before: log2(eta)
// levels apart, rounded (two for 3 and 4), then the last.
std::vector<int> level_rungs(int levels, int eta, int min_steps);

// What a trial that begins at rung `first` costs on average, where a share
// eta^-k goes on for k rungs. `costs`: of training up to each rung.
double average_cost(const std::vector<double>& costs, size_t first, int eta);

}  // namespace dtune
