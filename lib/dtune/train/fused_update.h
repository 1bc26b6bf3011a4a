// The update rules of update_rule.h as tensor operations, for trainings on
// devices: of several at once, each with numbers of its own, in a row for each.
// What differs from batch to batch are numbers that the CPU makes, the rest is
// the same.
#pragma once

#include <cmath>
#include <vector>

#include <ATen/ATen.h>

#include "dtune/study/train_spec.h"
#include "dtune/train/update_rule.h"

namespace dtune {

// [K, P] each; changed in place.
struct FusedTensors {
  at::Tensor weights;
  at::Tensor gradients;  // zero afterwards
  at::Tensor first;
  at::Tensor second;  // undefined for sgd
  at::Tensor l2;      // of each weight; not changed
};

// The next update of a training.
struct RowStep {
  const TrainSpec* train = nullptr;
  UpdateStep step{};
  double clip_norm = HUGE_VAL;  // the largest norm of the gradient
  double average = 0;           // WeightAverage::share
};

// [numbers, K] float32 on the CPU, to be sent to the device. REQUIRES: all sgd,
// or none.
at::Tensor update_numbers(const std::vector<RowStep>& rows,
                          const at::Device& device);

// --- With these numbers on the device.

void apply_fused_update(const at::Tensor& numbers, const FusedTensors& tensors);

// The same after gradients that are longer than clip_norm are scaled to it.
// Returns the norms that they had, [K] float64.
at::Tensor clip_and_update(const at::Tensor& numbers,
                           const FusedTensors& tensors);

// [K, 1]: RowStep::average.
at::Tensor average_shares(const at::Tensor& numbers);

}  // namespace dtune
