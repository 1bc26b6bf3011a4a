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

// --- The same in two parts: what the CPU makes for each batch, and what the
// device does with it.

// What is the same for all batches of these trainings.
struct JudgingKinds {
  std::vector<LossKind> losses;  // of each
  bool mixes = false;            // the samples of any of them
};
JudgingKinds judging_kinds(const std::vector<JudgedBatch>& batches);

// [K, numbers] float64 on the CPU, to be sent to the device.
at::Tensor judging_numbers(const std::vector<JudgedBatch>& batches,
                           const at::Device& device);

// numbers: as above, on the logits' device.
DeviceLosses device_losses(const at::Tensor& logits, const at::Tensor& numbers,
                           const JudgingKinds& kinds);

}  // namespace dtune
