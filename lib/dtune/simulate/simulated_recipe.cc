#include <algorithm>
#include <cmath>
#include <utility>

#include "dtune/simulate/simulator.h"
#include "dtune/tuner/factory.h"

namespace dtune {
namespace {

// Values of each axis with which a grid is at least as large as the default
// budgets.
int64_t grid_points(size_t dimensions) {
  constexpr double kTrainings = 20;
  return std::max<int64_t>(
      2, std::llround(std::ceil(std::pow(
             kTrainings, 1.0 / double(std::max<size_t>(dimensions, 1))))));
}

}  // namespace

Recipe simulated_recipe(const TrialWorld& world, const std::string& sampler,
                        const std::string& scheduler, uint64_t seed) {
  Recipe recipe = world.recipe();
  recipe.seed = seed;
  recipe.sampler = {sampler, {}};
  if (sampler == "grid") {
    recipe.sampler.options["points"] = grid_points(recipe.space.dimensions());
  }
  recipe.scheduler = {scheduler, {}};
  recipe.budget = {};
  return recipe;
}

SimulatedTuner make_named_tuner(const Recipe& recipe, const TrialWorld& world) {
  TunerOptions options;
  options.leave_out = {world.task()};
  Tuner tuner = make_tuner(recipe, world.steps(), options);
  return {std::move(tuner.sampler), std::move(tuner.scheduler)};
}

}  // namespace dtune
