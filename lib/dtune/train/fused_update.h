// The update rules of update_rule.h for several trainings at once, each with
// numbers of its own: tensors of one row a training, on any device.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/ATen.h>

#include "dtune/study/train_spec.h"
#include "dtune/train/update_rule.h"

namespace dtune {

// [K, P] each; changed in place.
struct FusedTensors {
  at::Tensor weights;
  at::Tensor gradients;  // of no use afterwards
  at::Tensor first;
  at::Tensor second;  // undefined for sgd
  at::Tensor l2;      // of each weight; not changed
};

// Row k by `trains[k]` and `steps[k]`. REQUIRES: all sgd, or none.
void apply_fused_update(const std::vector<const TrainSpec*>& trains,
                        const std::vector<UpdateStep>& steps,
                        const FusedTensors& tensors);

// The rows' own numbers as a column [K, 1] on the device.
at::Tensor column(const std::vector<double>& values, const at::Device& device);

}  // namespace dtune
