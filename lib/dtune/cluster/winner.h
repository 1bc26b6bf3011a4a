// Which trial of a finished search is its best.
#pragma once

#include <string>

#include "dtune/store/final_result.h"
#include "dtune/study/tuner.h"

namespace dtune {

struct Winner {
  TrialId trial = 0;  // 0: no trial has a result
  // Why it is not the trial with the best report; "" where it is that one.
  std::string why;
};

// The trial with the best expected value, where the scheduler models the values
// (Scheduler::leader): under noise the best of many reports is better than what
// its point deserves (the winner's curse; Smith and Winkler 2006, The
// Optimizer's Curse, Management Science 52(3)). Without such a model, where the
// expected values are as good as equal, and where the search ended since a
// report reached `stop.target`, that of the best report.
Winner winner_of(const Study& study, const Scheduler& scheduler);

// Of a study that keeps no model: what the search saw of the winner, which has
// a result. `why_over`: the search ended.
FinalResult result_without_model(const Study& study, const Winner& winner,
                                 const std::string& why_over);

}  // namespace dtune
