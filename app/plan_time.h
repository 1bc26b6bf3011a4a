// How long a study will take: estimates for `dtune plan`.
#pragma once

#include <optional>
#include <string>

#include "app/study_check.h"

#include "dtune/study/study.h"

namespace dtune {

// How long a step of a trial takes that trains on all images, and how that is
// known.
struct StepTime {
  double seconds = 0;
  std::string source;  // "measured: 812 images/s", "57 steps of this study"
  int most_steps = 0;  // of a trial of the study: where the recipe sets no end
};

// The median over the steps that a study has trained; empty without any.
std::optional<StepTime> step_time_of(const Study& study);

// Trains in this process for ten seconds, or for one step if that is shorter.
// For a gang: what its ranks reach if nothing is lost between them. Throws
// Error(config) for commands: their programs run in trials only.
StepTime measure_step(const RecipeFile& file, const StudyCheck& check);

// In seconds.
struct StudyTime {
  double training = 0;           // one trial, all steps
  std::optional<double> search;  // the longest that it can take; empty: without
                                 // limit
  double final_training = 0;     // 0: there is none
  int at_once = 1;               // trials
};
StudyTime study_time(const Recipe& recipe, const StudyCheck& check,
                     const StepTime& step);

}  // namespace dtune
