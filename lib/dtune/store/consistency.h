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

// All throw Error(data), naming the first contradiction.

// Ids are 1, 2, ..., n. Whole curves have the steps 1, 2, ..., m, ends of
// curves rising ones; those of the search end at the horizon. What the final
// result names exists.
void check_trials(const std::optional<StudyRow>& study,
                  const std::vector<Trial>& trials, CurvePart part);

// Numbers are 1, 2, ..., n.
void check_decisions(const std::vector<Decision>& decisions);

// Both of the above, without curves; all that reports, events and decisions
// refer to exists; the reports of a trial leave no step out.
void check_records(const StudyRecords& records);

// Each trial lies in the unit cube of the space.
void check_units(const SearchSpace& space, const std::vector<Trial>& trials);

}  // namespace dtune
