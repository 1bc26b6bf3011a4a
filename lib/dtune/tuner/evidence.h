// What a study tells the samplers that fit a model to its values.
#pragma once

#include <vector>

#include "dtune/study/study.h"

namespace dtune {

// Waiting or running: a trial whose next report is still to come.
bool is_pending(const Trial& trial);

// One trial's outcome; larger values are better, finite, at most 1e100 in size.
struct Outcome {
  const Trial* trial = nullptr;
  double value = 0;   // the best over its steps; the worst of all if `broken`
  double length = 1;  // log(1 + steps) / log(1 + horizon); 1: complete, broken
  bool broken = false;  // diverged, crashed or said to make no sense
};

// Trials of the search, in their order. Points into the study.
struct Evidence {
  std::vector<Outcome> outcomes;
  std::vector<const Trial*> pending;  // waiting or running
  // Trials that stopped have different lengths (ASHA, the median rule): then
  // values tell of the length too, and running trials are in `outcomes` as far
  // as they got. Else they are only pending.
  bool mixed_lengths = false;
  bool varied = false;  // at least two different values
};

// Trials lost or stopped before they reported anything are left out. Looks at
// nothing that a replay does not have. O(reports).
Evidence gather_evidence(const Study& study);

}  // namespace dtune
