// The trials of a study that was run, as a world to simulate others in.
#pragma once

#include <memory>

#include "dtune/simulate/trial_world.h"

namespace dtune {

struct TableFacts {
  int trials = 0;       // that may be proposed
  int ended_early = 0;  // of these: before the longest one's last step
};

// One point for each trial of the search that has reports. A proposal is
// trained as the recorded point that is nearest to it in the unit cube (of
// equals: the oldest trial) and not yet taken. A training is as long as the
// longest trial; one that ended earlier keeps its last value from there on,
// unless it diverged. Throws Error(data), naming `where`: fewer than two trials
// with values.
std::unique_ptr<TrialWorld> make_table_world(const Study& study,
                                             const std::string& where,
                                             TableFacts* facts = nullptr);

}  // namespace dtune
