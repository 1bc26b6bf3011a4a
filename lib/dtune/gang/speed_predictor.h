// How fast a rank will be in its next round.
#pragma once

#include <memory>
#include <span>

#include "dtune/study/recipe.h"

namespace dtune {

// One rank's speed over time. Not thread-safe.
class SpeedPredictor {
 public:
  virtual ~SpeedPredictor() = default;
  // Samples a second of compute time in the round that has just ended.
  // REQUIRES: finite and > 0.
  virtual void observe(double samples_per_second) = 0;
  // Of the next round; 0 before anything was observed.
  virtual double predict() const = 0;
};

// last: the last observation. ema: exponential moving average. lstm: a small
// LSTM over the recent logarithms of the speed, trained offline on traces
// (`dtune speeds train`); its weights ship. Chen et al. 2020 (SoCC, LB-BSP) use
// a recurrent network (NARX) in the same place.
std::unique_ptr<SpeedPredictor> make_speed_predictor(PredictorKind kind);

}  // namespace dtune
