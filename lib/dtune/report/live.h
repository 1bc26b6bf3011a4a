// The frame that a terminal shows while a study runs.
#pragma once

#include <string>

#include "dtune/cluster/events.h"
#include "dtune/report/text.h"

namespace dtune {

// Of the terminal.
struct FrameSize {
  int columns = 80;
  int rows = 24;
};

// At most size.rows - 1 lines of at most size.columns columns, each ended by a
// line end: study and times, progress, the best point, the trials (running
// ones first, then the best) and the slots. Cut gracefully where it is narrow
// or low. No cursor control: the caller clears and redraws. Costs some
// microseconds per trial.
std::string render_live(const Study& study, const ClusterStatus& status,
                        const FrameSize& size, bool color, bool unicode);

}  // namespace dtune
