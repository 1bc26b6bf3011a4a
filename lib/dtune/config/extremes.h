// Builds the recipe at the ends of its space, so that a value that cannot be
// is found when the recipe is loaded and not in its thirtieth trial.
#pragma once

#include "dtune/config/document.h"

namespace dtune {

// For every parameter: the least, the largest, or each of its choices, the
// others in the middle of their range (conditions and constraints permitting).
void check_extremes(const Document& document, const SearchSpace& space,
                    Diagnostics& diagnostics);

}  // namespace dtune
