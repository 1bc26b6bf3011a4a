// One CNN trial in one process: steps, checkpoints, the final model.
#pragma once

#include <memory>

#include "dtune/data/prepared.h"
#include "dtune/study/trial_runner.h"

namespace dtune {

class FusedTrainer;  // train/fused_trainer.h

// Starts a trial, or resumes it from its checkpoint. What a step computes
// depends on the assignment alone: a trial that was paused, moved or killed
// ends with the same weights as one that ran through (to the last bit with
// equal threads on equal machines).
//
// A checkpoint that is one step ahead of `resume_step` (the worker died between
// writing it and being heard) is taken as it is: the first run_step then
// returns that step's report without training it again.
//
// Throws Error(data) where the checkpoint cannot be used: the caller may start
// again with resume_step 0. Throws Error(config) where the model does not fit
// the data, or the device is not there; TrialFailure where memory is short.
//
// `fused`, which must outlive the session: with what other sessions run at the
// same time; null, or where the assignment is deterministic: alone.
std::unique_ptr<TrialSession> make_cnn_session(
    const TrialAssignment& assignment, std::shared_ptr<const PreparedData> data,
    FusedTrainer* fused = nullptr);

}  // namespace dtune
