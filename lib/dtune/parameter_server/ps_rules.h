// The rules of a parameter server, as functions. No LibTorch.
#pragma once

#include <cstdint>
#include <span>

#include "dtune/study/parallel_spec.h"
#include "dtune/study/train_spec.h"

namespace dtune {

// What a stale gradient's learning rate is multiplied with. `staleness`:
// updates of others between the weights that it was computed with and those
// that it is applied to; `active`: workers now.
//   delay_adaptive: 1 if staleness <= active, else active / staleness
//     (Mishchenko et al. 2022, arXiv 2206.07638; Koloskova et al. 2022, arXiv
//     2206.08307, with tau_C = the workers that compute at the same time)
//   inverse: 1 / max(1, staleness) (Zhang et al. 2015, arXiv 1511.05950)
double staleness_factor(StalenessRule rule, int64_t staleness, int active);

// Gradients at least this stale are dropped and their worker is sent fresh
// weights (Ringmaster ASGD: Maranjyan et al. 2025, arXiv 2501.16168).
int64_t discard_threshold(const ParallelSpec& parallel);

// Delay compensation (DC-ASGD: Zheng et al. 2017, arXiv 1609.08326), in place:
//   g += lambda g^2 (w - backup)
// constant: lambda = lambda0. adaptive, element by element:
//   mean_square = 0.95 mean_square + 0.05 g^2
//   lambda = lambda0 / sqrt(mean_square + 1e-7)
// lambda0 = spec.lambda, or 0.04 and 2. The paper's mean square covers the
// training; ours begins anew with each fidelity step of a trial.
struct CompensationArrays {
  std::span<float> gradient;
  std::span<const float> weights;
  std::span<const float> backup;  // the weights that the worker was sent
  std::span<float> mean_square;   // adaptive
};
void compensate(const ParameterServerSpec& spec,
                const CompensationArrays& arrays);

// Where ssp and async apply single workers' gradients, momentum makes staleness
// far worse: every gradient goes on moving the weights for 1 / (1 - momentum)
// updates that workers that compute meanwhile have not seen. So each worker has a
// velocity of its own gradients (DANA-Slim: Hakimi et al. 2019, arXiv
// 1907.11612): v_i = m v_i + g;  w -= lr (g + m v_i), whatever `nesterov` says.
// The weights that workers are sent are then those that all velocities lead to.
// The paper's workers keep v_i and send g + m v_i; here the server does, which
// knows what it drops. Plain sgd and adam are left as they are.
bool has_own_velocity(const TrainSpec& train);
// The rule of one worker's gradient.
TrainSpec worker_rule(TrainSpec train);

// What a gradient is multiplied with so that its norm is at most `clip_norm`
// (0: any); as Optimizer::update.
double clip_scale(double clip_norm, double squares);

// Summed in double, in an order that depends on the length alone.
double sum_of_squares(std::span<const float> values);

}  // namespace dtune
