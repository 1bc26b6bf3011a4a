// A trial as a scheduler's directive makes it.
#pragma once

#include "dtune/study/tuner.h"

namespace dtune {

// Appends it, with a seed of its own; nothing is recorded. The reference is
// good until the next trial is added. REQUIRES: directive.kind is `start`.
Trial& add_trial(Study& study, const Directive& directive, int64_t wall_ms);

}  // namespace dtune
