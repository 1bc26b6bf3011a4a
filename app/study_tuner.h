// The tuner of a study, as its recipe names it: for looking back at a study.
#pragma once

#include "dtune/review/replay.h"

namespace dtune {

// Throws Error(config) as the factories do.
ReplayTuner tuner_of(const Recipe& recipe, int horizon);

}  // namespace dtune
