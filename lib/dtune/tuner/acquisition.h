// What a decision by chance of improvement draws (MFPI-random: Rakotoarison et
// al. 2024, "In-context freeze-thaw Bayesian optimization", arXiv 2404.16795,
// section 4): a horizon and an ambition, a portfolio in place of two
// parameters.
#pragma once

#include <cstdint>

namespace dtune {

struct Ambition {
  int horizon = 1;   // steps ahead, uniform in 1 .. the study's horizon
  double share = 0;  // of the gap between the best and 1: 10^U(-4, -1)
};

// Depends on its arguments alone: a sampler and a scheduler that take the same
// decision draw the same.
Ambition draw_ambition(uint64_t seed, int64_t decision, int horizon);

}  // namespace dtune
