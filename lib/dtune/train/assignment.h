// What a trial's assignment says about its training.
#pragma once

#include <cstdint>

#include <ATen/ATen.h>

#include "dtune/data/prepared.h"
#include "dtune/study/trial_runner.h"
#include "dtune/train/checkpoint.h"
#include "dtune/train/torch_settings.h"
#include "dtune/train/trainer.h"

namespace dtune {

// Where steps end, in samples seen.
struct StepPlan {
  int64_t step = 1;
  int64_t total = 1;
  int horizon = 1;

  int64_t end_of(int number) const;
};

// `count`: samples an epoch of this training. Where it also has the validation
// split, steps grow with it, so that there are as many.
StepPlan plan_steps(const TrialAssignment& assignment, const PreparedData& data,
                    int64_t count);

bool trains_on_validation(const TrialAssignment& assignment);
// Of the whole training.
double epochs_of(const TrialAssignment& assignment);
TrainerOptions trainer_options(const TrialAssignment& assignment,
                               at::Device device);
Computing computing_of(const TrialAssignment& assignment);
CheckpointOwner owner_of(const TrialAssignment& assignment);

// Throws Error(data) where there is nothing to train on, Error(config) where
// the objective needs a validation split that is empty.
void check_splits(const TrialAssignment& assignment, const PreparedData& data);

// The failure of a network that answers with infinities or NaN.
[[noreturn]] void fail_not_finite(const TrialAssignment& assignment);

}  // namespace dtune
