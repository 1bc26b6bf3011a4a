// What every way of training a trial has in common: its seeds, splits, class
// weights and learning rate.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <ATen/ATen.h>

#include "dtune/data/batches.h"
#include "dtune/data/prepared.h"
#include "dtune/nn/network.h"
#include "dtune/study/recipe.h"
#include "dtune/study/trial_runner.h"
#include "dtune/train/batch_source.h"

namespace dtune {

// What a network computes in, and whether float32 products may be TF32 ones.
at::ScalarType compute_type(Precision precision);
bool allows_tf32(Precision precision);
// Throws Error(config) where the device cannot compute so.
void check_precision(Precision precision, const at::Device& device);

// The seed of one purpose ("weights", "order", "augment", "dropout") of the
// training with this seed.
uint64_t seed_for(uint64_t seed, std::string_view purpose);

// Of a training batch, whose number keys the dropout masks. For a part of it
// the caller sets first_sample.
PassContext training_pass(uint64_t seed, int64_t batch_number);

std::vector<Split> training_splits(bool with_validation);

// Empty: all 1.
std::vector<double> class_weights(const DataSpec& data,
                                  const BatchSource& source);

// Room for a batch: [samples, C, H, W] float32, channels-last, on the CPU.
at::Tensor batch_tensor(int64_t samples, const Shape& shape);

// How far a training is when it comes to a batch, for schedules.
struct TrainingProgress {
  int64_t position = 0;  // samples seen before the batch
  int64_t samples = 1;   // of an epoch
  double epochs = 1;     // of the whole training
};

// The batch's learning rate: the schedule's at its middle.
double learning_rate(const TrainSpec& train, const TrainingProgress& progress,
                     const BatchRange& batch);

// TrialFailure(diverged) that says which value became what, when, and what to
// do.
TrialFailure diverged(const char* what, double value, const TrainSpec& train,
                      const TrainingProgress& progress,
                      const BatchRange& batch);

}  // namespace dtune
