// Recorded curves as those of a data set unlike all recorded ones, so that what
// was learnt from recorded curves misleads. The curves are the same, at other
// points: no tuner that learns from the study alone has a harder task, unless
// it counts on smoothness (permuted).
#pragma once

#include <string>
#include <vector>

#include "dtune/curves/recorded_curves.h"

namespace dtune {

enum class Misleading {
  none,
  reversed,  // the axis of the learning rate is turned round
  shifted,  // the learning rate and L2 are moved by a third of their axes; what
            // leaves at one end enters at the other
  permuted,  // the values of each axis are in an order by chance, always the
             // same one
};

// The names above, without `none`.
const std::vector<std::string>& misleading_names();
// REQUIRES: one of misleading_names().
Misleading misleading_of(const std::string& name);

// The values and the repeats of the curves in that order.
RecordedCurves mislead(RecordedCurves curves, Misleading how);

}  // namespace dtune
