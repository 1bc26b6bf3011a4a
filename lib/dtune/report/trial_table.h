// The table of trials that the live view and `dtune status` share.
#pragma once

#include <string>
#include <vector>

#include "dtune/report/table.h"
#include "dtune/report/text.h"
#include "dtune/study/study.h"

namespace dtune {

// Trials in the order in which people want them: running first (by id), then
// by their best value, then those without one.
std::vector<const Trial*> order_for_display(const Study& study);

// The scale that makes curves comparable: from the worst tenth of all values of
// these trials to the best.
Scale curve_scale(const ObjectiveSpec& objective,
                  const std::vector<const Trial*>& trials);

// Lines of the table, its header first. `best` is marked; null: none is.
std::vector<std::string> trial_table(const Study& study,
                                     const std::vector<const Trial*>& trials,
                                     const Trial* best, const TextStyle& style);

Color color_of(TrialState state);
// "timed out".
std::string state_words(TrialState state);

}  // namespace dtune
