// Whether what recorded studies teach has a part in a study.
#pragma once

#include <string>

#include "dtune/study/recipe.h"

namespace dtune {

// Why the tuner that the recipe names does without the learnt prior, as a
// clause: "it was learnt from SGD, and train.optimizer is adam". "" where the
// prior takes part, and where the tuner has no use for one.
std::string why_unlearnt(const Recipe& recipe);

}  // namespace dtune
