// Model-parallel training: a gang's members have some of the layers each
// (parallel.mode model), or do so in several pipelines side by side (hybrid).
//
// The network is cut once, when the gang has come together, by measured costs
// of layers, speeds of members and what crosses each cut (pipeline_plan.h): a
// slow node gets fewer layers. Results do not depend on the cut, except in the
// last bits; nor on the number of stages, replicas and micro-batches where no
// layer looks across samples. Batch norm does: it normalises by micro-batch and
// its running statistics move with each (0.1 of the difference, as often as
// there are micro-batches); replicas average them at the end of each step.
//
// A step is one round of training for the gang's server: the members share out
// the batches among themselves, judge the validation split forward-only, and
// put the whole state together on the leader, which writes the same checkpoint
// as one process would.
//
// No stage can be missing: where one does not answer, the gang is closed, and
// the trial goes on from its checkpoint with another.
#pragma once

#include <memory>

#include "dtune/data/prepared.h"
#include "dtune/study/trial_runner.h"

namespace dtune {

// A stage's session. REQUIRES: assignment.rank. Throws as
// make_cnn_session, and
// Error(config) where there are more stages than layers to part.
std::unique_ptr<TrialSession> make_pipeline_session(
    const TrialAssignment& assignment,
    std::shared_ptr<const PreparedData> data);

}  // namespace dtune
