// Rules that several schedulers share.
#pragma once

#include <string>
#include <vector>

#include "dtune/study/tuner.h"

namespace dtune {

// Goes on with interrupted trials, then starts new ones, all up to `target`;
// waits for the running ones, and finishes.
Directive run_all_to(int target, const Study& study, Sampler& sampler,
                     int64_t decision, bool may_start);

// The trials that a recipe's budget and space allow; 0: as many as fit in the
// time. `steps_per_trial` is the average, for a budget in steps.
double expected_trials(const Recipe& recipe, double steps_per_trial);

// "40 trials", "about 12 trials", "1 trial".
std::string count_trials(double trials);

// Plan lines of a scheduler that trains all trials to the horizon.
std::vector<std::string> plan_to_horizon(const Recipe& recipe, int horizon);

}  // namespace dtune
