// The rules of `stop:`, by which a search ends before its budget does.
#pragma once

#include <string>

#include "dtune/study/tuner.h"

namespace dtune {

// What a plateau is asked about: so much of the budget that was spent, in
// addition.
inline constexpr double kPlateauShare = 0.2;

// "the target of 0.95 is reached: trial 7 has val_accuracy 0.953 at step 4";
// "" where there is none or it is not reached.
std::string reached_target(const Study& study);

// "a fifth more trials would gain more than 0.001 with a probability of 0.03
// only"; "" where the recipe does not ask or the chance is larger.
std::string on_plateau(const Study& study, const Scheduler& scheduler);

}  // namespace dtune
