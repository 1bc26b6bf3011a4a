// The tuner of a study, as its recipe names it.
#pragma once

#include "dtune/config/recipe_file.h"
#include "dtune/review/replay.h"
#include "dtune/tuner/factory.h"

namespace dtune {

// What the recipe's tuner uses beside the recipe: the studies that
// `warm_start` names. Throws Error(data) where a file is missing, as
// open_sqlite_store does for what is no study, and Error(config) where none of
// a study's trials is a point of the recipe's space, or its objective differs.
TunerOptions tuner_options(const Recipe& recipe);

// The tuner of a recipe that was just read: what is wrong with its kinds and
// their options is a RecipeError at its place. Throws as make_tuner does.
Tuner checked_tuner(const RecipeFile& file, int horizon,
                    const TunerOptions& options);

// For looking back at a study. Throws as tuner_options and the factories do.
ReplayTuner tuner_of(const Recipe& recipe, int horizon);

}  // namespace dtune
