// Studies of a function of the point, for the tests of samplers that model it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dtune/study/tuner.h"

namespace dtune::testing {

using Function = std::function<double(const Point& point)>;

// Adds `count` complete trials of one step, one after the other.
void run_trials(Study& study, Sampler& sampler, const Function& function,
                int count);

// Mean over seeds 0 .. 4 of the best value after `count` trials over the space.
double mean_best(const std::string& sampler, const SearchSpace& space,
                 const Function& function, int count);

// Numbers x0, x1, ... in [0, 1].
SearchSpace unit_cube(int dimensions);
// Minus the squared distance from (0.3, 0.3, ...).
double bowl(const Point& point);

// lr (log), width (integer), quantised dropout, optimizer with momentum (only
// sgd) and nesterov (only with momentum); lr * width < 20.
SearchSpace mixed_space();
// Best at lr 0.01, width 100, dropout 0.2, sgd with momentum 0.9.
double mixed_function(const Point& point);

}  // namespace dtune::testing
