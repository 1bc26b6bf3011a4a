// The optimizer that trains the surrogate's network: Adam (Kingma and Ba 2015,
// arXiv 1412.6980, algorithm 1) with gradients clipped by their norm (Pascanu
// et al. 2013, arXiv 1211.5063) and a learning rate that warms up linearly and
// then falls as a cosine (Loshchilov and Hutter 2017, arXiv 1608.03983, eq. 5,
// one period).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dtune {

struct AdamOptions {
  double rate = 2e-3;         // the largest learning rate
  double final_share = 0.01;  // of it, at the last step
  int64_t warm_up = 100;      // steps
  int64_t steps = 1000;  // of the whole training; later ones stay at the end
  double clip = 1;       // the largest norm of a gradient; 0: no limit
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

// Deterministic. Not thread-safe.
class Adam {
 public:
  Adam(size_t parameters, const AdamOptions& options);

  // One step against the gradient, whose norm before clipping is returned. A
  // gradient that is not finite changes nothing and does not count as a step.
  // REQUIRES: both of the size given above.
  double step(std::span<float> parameters, std::span<const float> gradient);

  // The learning rate of step number `step`, from 0.
  double rate_at(int64_t step) const;
  int64_t steps_done() const { return steps_; }

 private:
  AdamOptions options_;
  int64_t steps_ = 0;
  std::vector<float> mean_;
  std::vector<float> square_;
};

}  // namespace dtune
