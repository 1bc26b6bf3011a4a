// Recipes of gangs in tests.
#pragma once

#include "fixture.h"

namespace dtune {

inline Recipe parallel_recipe(int ranks, Recipe recipe = small_recipe()) {
  recipe.parallel.mode = ParallelMode::data;
  recipe.parallel.ranks = ranks;
  // On a loaded machine any thread may look slow; nobody is dropped for it.
  recipe.parallel.stragglers = StragglerPolicy::off;
  return recipe;
}

// Three ranks; whoever is late is left behind for the time being.
inline Recipe gang_fault_recipe() {
  Recipe recipe = parallel_recipe(3);
  recipe.parallel.stragglers = StragglerPolicy::automatic;
  recipe.train.epochs = 6;
  return recipe;
}

// A final training of six steps, as Workshop::assignment's.
inline TrialAssignment gang_assignment(const Recipe& recipe) {
  TrialAssignment assignment;
  assignment.study_id = "study-1";
  assignment.trial = 3;
  assignment.attempt = 1;
  assignment.kind = TrialKind::final;
  assignment.recipe = recipe;
  assignment.seed = 11;
  assignment.horizon = 6;
  assignment.recipe_yaml = "study: small\n";
  return assignment;
}

}  // namespace dtune
