// How fast a rank will be in its next round.
#pragma once

#include <memory>
#include <span>

#include "dtune/study/parallel_spec.h"

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

// Weight of the newest logarithm in PredictorKind::ema: 0.5 loses more at jumps
// than it gains on noise (`dtune speeds eval`), 1 would be the last value.
inline constexpr double kEmaWeight = 0.7;

// last: the last observation. ema: exponential moving average of the logarithm.
// lstm: a small LSTM that mixes and corrects simple predictions, trained
// offline on traces (`dtune speeds train`); its weights ship (speed_lstm.h). It
// leans to the low side where it is unsure, because all wait for a rank that
// got too much. Chen et al. 2020 (SoCC, LB-BSP) use a recurrent network (NARX)
// in the same place.
std::unique_ptr<SpeedPredictor> make_speed_predictor(PredictorKind kind);

}  // namespace dtune
