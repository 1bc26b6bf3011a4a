// A coordinator in miniature for the tests of tuner: slots that run synthetic
// curves, finishing in an order drawn from a seed. No processes, no clocks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dtune/base/random.h"
#include "dtune/study/tuner.h"

namespace dtune::testing {

// lr (log), l2 (log), dropout: the default cube.
std::vector<Parameter> cube();

// A recipe over the cube with the given kinds, a seed and a number of trials.
Recipe cube_recipe(const std::string& sampler, const std::string& scheduler,
                   uint64_t seed, int trials);

Study make_study(Recipe recipe, int horizon);

// The metric of a trial at a step; NaN diverges.
using Curve = std::function<double(const Trial& trial, int step)>;
// A rising curve whose end depends on the point: best at lr = 0.01.
double smooth_curve(const Trial& trial, int step);

struct Options {
  int slots = 1;
  uint64_t order_seed = 1;  // which running trial reports next
  Curve curve = smooth_curve;
  int64_t stop_after_reports = -1;  // as Ctrl-C: running trials are paused
};

// Runs a study to its end (or to the stop) as the coordinator would; checks on
// the way that each directive and verdict is one that the contract allows.
// Returns the log of decisions, one line each.
std::vector<std::string> simulate(Study& study, Sampler& sampler,
                                  Scheduler& scheduler, const Options& options);

// The trial of the search with the best value, and how often a point recurs.
int duplicate_points(const Study& study);

}  // namespace dtune::testing
