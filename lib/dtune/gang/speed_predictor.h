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
  // What is no speed (0, negative, not finite) is ignored.
  virtual void observe(double samples_per_second) = 0;
  // Of the next round; 0 before anything was observed.
  virtual double predict() const = 0;
};

// Whether `value` can be one: finite and > 0.
bool is_speed(double value);

// Weight of the newest logarithm in PredictorKind::ema; best of a scan over
// mixed traces (`dtune speeds train` prints it).
inline constexpr double kEmaWeight = 0.5;

// last: the last observation. ema: exponential moving average. lstm: a small
// LSTM over the recent logarithms of the speed, trained offline on traces
// (`dtune speeds train`); its weights ship. Chen et al. 2020 (SoCC, LB-BSP) use
// a recurrent network (NARX) in the same place.
std::unique_ptr<SpeedPredictor> make_speed_predictor(PredictorKind kind);

}  // namespace dtune
