// Checkpoints: everything that a trial in training is, in one safetensors file,
// replaced atomically after each step.
//
// Tensors, flat F32: weights, buffers, the optimizer's state (velocity, or
// first_moment and second_moment), and with train.ema the averages
// (average_weights, average_buffers). Metadata, as text: dtune_format
// "checkpoint-1", study, trial, attempt, seed, architecture, samples (of an
// epoch), step, position (samples seen), updates (of the optimizer), report
// (JSON: the metrics and seconds of the step), checksum (of the tensors).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "dtune/study/trial.h"

namespace dtune {

class Trainer;
class WeightAverage;

// A flat float32 tensor, where it lives.
struct NamedTensor {
  std::string name;
  at::Tensor values;
};

// All that a training is, as views: what a checkpoint keeps.
struct TrainingState {
  std::vector<NamedTensor> tensors;  // as listed above
  uint64_t architecture = 0;         // architecture_of, train/trainer.h
  int64_t samples = 0;               // of an epoch on all images
  int64_t position = 0;              // samples seen
  int64_t updates = 0;               // of the optimizer
};

TrainingState state_of(Trainer& trainer);

// Appends the averages; null: none.
void append_average(WeightAverage* average, std::vector<NamedTensor>& tensors);

// Whose checkpoint it is.
struct CheckpointOwner {
  std::string study_id;
  TrialId trial = 0;
  uint64_t seed = 0;
};

// It survives the death of any process; and a power cut where the step took a
// second or more: others are not synced to the disk, and what is half-written
// then is found by its checksum. Throws Error(temporary) where there is no
// space.
void write_checkpoint(const std::filesystem::path& path,
                      const CheckpointOwner& owner, Attempt attempt,
                      const StepReport& report, const TrainingState& state);

// Brings the state to where the checkpoint was written, tensors in place, and
// returns the report of that step. Throws Error(data) that starts with the path
// where there is none, it is damaged, another trial's or of another
// architecture: the trial can only start again from step 0. Nothing is changed
// then.
StepReport load_checkpoint(const std::filesystem::path& path,
                           const CheckpointOwner& owner, TrainingState& state);

// The same for a trainer.
StepReport load_checkpoint(const std::filesystem::path& path,
                           const CheckpointOwner& owner, Trainer& trainer);

}  // namespace dtune
