// A toy trial that takes several slots: real rounds with the gang server, no
// data plane. A step is an epoch of 64 samples in batches of 16; a sample takes
// "ms" / 16 of the point.
#pragma once

#include <memory>

#include "dtune/study/trial_runner.h"

namespace dtune::toy {

std::unique_ptr<TrialSession> make_gang_session(
    const TrialAssignment& assignment);

}  // namespace dtune::toy
