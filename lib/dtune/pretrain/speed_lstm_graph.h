// The network of speed/speed_lstm.h in LibTorch's operations, which autograd
// differentiates. The program's own inference computes the same, to rounding.
#pragma once

#include <span>
#include <vector>

#include <ATen/ATen.h>

#include "dtune/pretrain/speed_trainer.h"

namespace dtune {

// Traces side by side, as long as the longest; what is behind the end of a
// shorter one is 0.
struct SpeedBatch {
  at::Tensor inputs;      // [rounds, traces, kSpeedInputs]
  at::Tensor candidates;  // [rounds, traces, kSpeedCandidates]
  at::Tensor spread;      // [rounds, traces]
  at::Tensor next;        // [rounds, traces], relative to the moment's level
  at::Tensor weight;      // [rounds, traces]: of each trace the sum is 1
};
// `type`: of the numbers, at::kFloat or at::kDouble.
SpeedBatch speed_batch(std::span<const std::vector<SpeedStep>> traces,
                       at::ScalarType type);

// [rounds, traces]: predicted log speeds, relative to the moments' levels.
// `parameters`: SpeedLstm::parameters() of a network of that many hidden
// channels, of the batch's type.
at::Tensor speed_offsets(int64_t hidden, const at::Tensor& parameters,
                         const SpeedBatch& batch);

// The mean over the traces of each one's mean loss.
at::Tensor speed_loss(int64_t hidden, const at::Tensor& parameters,
                      const SpeedBatch& batch, const SpeedLoss& loss);

}  // namespace dtune
