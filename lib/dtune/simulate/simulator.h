// Runs a whole study on recorded curves, in virtual time: the same samplers and
// schedulers as `dtune run`, without a network.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtune/simulate/trial_world.h"
#include "dtune/study/tuner.h"

namespace dtune {

struct SimulationOptions {
  uint64_t seed = 0;  // of the noise
  int slots = 1;
  double noise = 0;  // standard deviation added to every observation
  // Standard deviation of the logarithm of a step's duration between trials,
  // a function of the point; 0: all steps take equally long.
  double spread = 0;
  // In steps, ascending; empty: 1, 2, 4, 8, 12 and 20 full trainings.
  std::vector<int64_t> budgets;
};

// What tunes a simulated study.
struct SimulatedTuner {
  std::unique_ptr<Sampler> sampler;
  std::unique_ptr<Scheduler> scheduler;
};

// Makes the tuner of one study. Called on several threads at once. The world
// says which task and context it is, so that a prior can leave the task out.
using MakeTuner =
    std::function<SimulatedTuner(const Recipe& recipe, const TrialWorld&)>;

// By the names in the recipe (tuner/factory.h). What is learnt from recorded
// curves does without the world's task.
SimulatedTuner make_named_tuner(const Recipe& recipe, const TrialWorld& world);

// Sees everything that happens in one simulated study. The tuner may be asked
// for its predictions (Explainer), which changes nothing.
class SimulationObserver {
 public:
  virtual ~SimulationObserver() = default;
  virtual void on_directive(const Study& /*study*/,
                            const Directive& /*directive*/) {}
  // After the report was added to the trial's curve, before it is judged.
  virtual void on_report(const Study& /*study*/, const Trial& /*trial*/) {}
};

struct SimulationResult {
  // (best - found) / (best - median of final) at each budget; found: the true
  // value of the trial and step that the scheduler's leader() names, else of
  // the best observation, 1 where nothing was found. Where the median is the
  // best, a miss counts in millionths of the metric.
  std::vector<double> regret;
  int64_t steps = 0;
  double time = 0;  // virtual, in steps of the usual duration
  int trials = 0;
  int64_t decisions = 0;
  int cuts = 0;
  int cuts_wrong = 0;  // would have beaten the final incumbent by the horizon
};

// The budgets of the options, or the default ones for trainings of `steps`.
std::vector<int64_t> budgets_of(const SimulationOptions& options, int steps);

// The recipe of a simulated study: the world's, with the sampler, the scheduler
// and the seed in place, without a budget. Both are without options; a grid has
// as many points an axis as give 20 trials or more.
Recipe simulated_recipe(const TrialWorld& world, const std::string& sampler,
                        const std::string& scheduler, uint64_t seed);

// What a simulation observes of a trial at a step: one recorded training's
// value (where the world has several a point, the seed and the trial's number
// select it) and the noise that belongs to the seed, the trial's number and the
// step. Larger is better; not finite where the trial diverges.
double observation(const TrialWorld& world, const SimulationOptions& options,
                   const Trial& trial, int step);

// Deterministic. The study ends when the largest budget is spent, the scheduler
// finishes or the world has no further trial. REQUIRES: options are in range.
// Throws what the tuner throws. `observer` may be null.
SimulationResult simulate(const TrialWorld& world, const Recipe& recipe,
                          const SimulatedTuner& tuner,
                          const SimulationOptions& options,
                          SimulationObserver* observer = nullptr);

}  // namespace dtune
