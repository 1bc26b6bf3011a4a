// Losses of several trainings (loss.h) at once by tensor operations, with
// nothing waited for: for devices, from which totals are read seldom.
#pragma once

#include <vector>

#include <ATen/ATen.h>

#include "dtune/train/loss.h"

namespace dtune {

// A training's batch.
struct JudgedBatch {
  const Loss* loss = nullptr;
  Targets targets;
};

struct DeviceLosses {
  at::Tensor gradients;  // as the logits: d(batch loss)/d(logits), float32
  at::Tensor losses;     // [K] float64: of each batch, sums over its samples
  at::Tensor correct;    // [K] float64: samples
};

// logits: [K, n, classes] on any device. Equal to Loss up to rounding.
// REQUIRES: K batches of n samples.
DeviceLosses device_losses(const at::Tensor& logits,
                           const std::vector<JudgedBatch>& batches);

}  // namespace dtune
