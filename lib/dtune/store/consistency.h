// What the rows of a study's database have to be to one another. A database may
// come from anywhere, and be edited with any program: everything above the
// store relies on these, and would read beyond its tables without them. Ranges
// of single columns are checked where they are read (rows.cc).
#pragma once

#include <optional>
#include <vector>

#include "dtune/space/search_space.h"
#include "dtune/store/trial_store.h"

namespace dtune {

// What a trial's row says of its reports; written in one transaction with them.
struct CurveEnds {
  int last_step = 0;           // 0: there are none
  std::optional<double> best;  // objective_value(); none: no report has it
};

// All throw Error(data), naming the first contradiction.

// Ids are 1, 2, ..., n. Whole curves have the steps 1, 2, ..., m, ends of
// curves rising ones; those of the search end at the horizon. Curves reach to
// the last and to the best report that their trials' rows know (`ends`, in the
// same order): none was deleted. What the final result names exists.
void check_trials(const std::optional<StudyRow>& study,
                  const std::vector<Trial>& trials,
                  const std::vector<CurveEnds>& ends, CurvePart part);

// Numbers are 1, 2, ..., n.
void check_decisions(const std::vector<Decision>& decisions);

// Both of the above, without curves; all that reports, events and decisions
// refer to exists; the reports of a trial leave no step out, up to its last.
void check_records(const StudyRecords& records,
                   const std::vector<CurveEnds>& ends);

// Each trial lies in the unit cube of the space.
void check_units(const SearchSpace& space, const std::vector<Trial>& trials);

}  // namespace dtune
