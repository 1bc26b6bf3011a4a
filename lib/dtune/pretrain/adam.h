// The optimizer of the networks that are trained here.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dtune/study/train_spec.h"

namespace dtune {

struct AdamOptions {
  double rate = 2e-3;  // the largest learning rate
  double warm_up = 0;  // steps, linear
  int64_t steps = 1;   // of the whole training
  double clip = 1;     // the largest norm of a gradient
};

// Adam with clipped gradients and a rate that falls as a cosine to a hundredth
// of the largest: the rules of train/update_rule.h and train/schedule.h.
// Deterministic. Not thread-safe.
class Adam {
 public:
  Adam(size_t parameters, const AdamOptions& options);

  // One step against the gradient, which is zero afterwards. One that is not
  // finite changes nothing and does not count as a step. REQUIRES: both of the
  // size given above.
  void step(std::span<float> parameters, std::span<float> gradient);

 private:
  TrainSpec spec_;  // its epochs are steps
  int64_t steps_ = 0;
  std::vector<float> mean_;
  std::vector<float> square_;
};

}  // namespace dtune
