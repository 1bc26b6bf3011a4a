// Checkpoints: everything that a trial in training is, in one safetensors file,
// replaced atomically after each step.
//
// Tensors, flat F32: weights, buffers, and the optimizer's state (velocity, or
// first_moment and second_moment). Metadata, as text: dtune_format
// "checkpoint-1", study, trial, attempt, seed, architecture, samples (of an
// epoch), step, position (samples seen), updates (of the optimizer), report
// (JSON: the metrics and seconds of the step), checksum (of the tensors).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "dtune/study/trial_runner.h"

namespace dtune {

class Trainer;

// Whose checkpoint it is.
struct CheckpointOwner {
  std::string study_id;
  TrialId trial = 0;
  uint64_t seed = 0;
};

// Not synced to the disk: it survives the death of any process; what a power
// cut leaves half-written is found by its checksum. Throws Error(temporary)
// where there is no space.
void write_checkpoint(const std::filesystem::path& path,
                      const CheckpointOwner& owner, Attempt attempt,
                      const StepReport& report, Trainer& trainer);

// Brings the trainer to where the checkpoint was written and returns the
// report of that step. Throws Error(data) that starts with the path where there
// is none, it is damaged, another trial's or of another architecture: the trial
// can only start again from step 0. The trainer is unchanged then.
StepReport load_checkpoint(const std::filesystem::path& path,
                           const CheckpointOwner& owner, Trainer& trainer);

}  // namespace dtune
