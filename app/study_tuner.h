// The tuner of a study, as its recipe names it.
#pragma once

#include <string>

#include "dtune/config/recipe_file.h"
#include "dtune/review/replay.h"
#include "dtune/tuner/factory.h"

namespace dtune {

// What the recipe's tuner uses beside the recipe: the studies that
// `warm_start` names. Throws Error(data) where a file is missing, damaged or no
// study, and Error(config) where none of a study's trials is a point of the
// recipe's space, or its objective differs.
TunerOptions tuner_options(const Recipe& recipe);

// The same of a recipe that was just read, and its tuner: what is wrong with
// `warm_start`, `surrogate` and the kinds and their options is a RecipeError at
// its place. Throw as tuner_options and make_tuner do.
TunerOptions checked_tuner_options(const RecipeFile& file);
Tuner checked_tuner(const RecipeFile& file, int horizon,
                    const TunerOptions& options);

// "old.db: 24 trials": those that count. Where some of a study do not, of how
// many, and why the first of the others does not. `path` is that which
// `warm_start` names.
std::string describe_warm_study(const Recipe& recipe, const std::string& path,
                                const WarmStudy& old);

// For looking back at a study. Throws as tuner_options and the factories do.
ReplayTuner tuner_of(const Recipe& recipe, int horizon);

}  // namespace dtune
