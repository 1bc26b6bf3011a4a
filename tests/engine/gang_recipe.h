// Recipes of gangs in tests.
#pragma once

#include "fixture.h"

namespace dtune {

inline Recipe parallel_recipe(int ranks, Recipe recipe = small_recipe()) {
  recipe.parallel.mode = ParallelMode::data;
  recipe.parallel.ranks = ranks;
  // On a loaded machine any thread may look slow; none is dropped for it.
  recipe.parallel.stragglers = StragglerPolicy::off;
  return recipe;
}

// "data"; "ps", "ssp": a server besides, which leaves out late workers;
// "model": stages.
inline ParallelSpec parallel_of(const std::string& mode, ParallelSpec spec) {
  if (mode == "model") spec.mode = ParallelMode::model;
  if (mode == "ps" || mode == "ssp") {
    spec.sync = SyncKind::ps;
    spec.stragglers = StragglerPolicy::automatic;
  }
  if (mode == "ssp") spec.ps.consistency = Consistency::ssp;
  return spec;
}

// Of a final training by three ranks, with steps of an epoch.
inline TrialAssignment gang_assignment(int steps,
                                       const std::string& mode = "data") {
  TrialAssignment assignment;
  assignment.study_id = "study-1";
  assignment.trial = 3;
  assignment.attempt = 1;
  assignment.kind = TrialKind::final;
  assignment.recipe = parallel_recipe(3);
  assignment.recipe.parallel = parallel_of(mode, assignment.recipe.parallel);
  assignment.recipe.train.epochs = steps;
  assignment.seed = 11;
  assignment.horizon = steps;
  assignment.recipe_yaml = "study: small\n";
  return assignment;
}

}  // namespace dtune
