// The rules of a parameter server, as functions. No LibTorch.
#pragma once

#include <cstdint>
#include <span>

#include "dtune/study/recipe.h"

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

// What a gradient is multiplied with so that its norm is at most `clip_norm`
// (0: any); as Optimizer::update.
double clip_scale(double clip_norm, double squares);

// Summed in double, in an order that depends on the length alone.
double sum_of_squares(std::span<const float> values);

}  // namespace dtune
