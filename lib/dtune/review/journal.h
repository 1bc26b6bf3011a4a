// The order in which a study's records were made.
#pragma once

#include <cstddef>
#include <vector>

#include "dtune/store/trial_store.h"

namespace dtune {

// One record of a study, by its place in the vectors of StudyRecords.
struct JournalItem {
  enum class Kind { session, report, event, decision };
  Kind kind = Kind::session;
  size_t index = 0;
};

// All records, first things first. A session stands before the first record
// that was made in it. Throws Error(store) where the study (or a part of it)
// was made by a dtune that kept no note of the order, Error(data) where the
// records contradict each other (were changed by hand).
std::vector<JournalItem> journal_of(const StudyRecords& records);

}  // namespace dtune
