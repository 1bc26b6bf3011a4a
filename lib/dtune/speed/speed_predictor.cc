#include "dtune/speed/speed_predictor.h"

#include <cmath>

#include "dtune/speed/speed_lstm.h"

namespace dtune {
namespace {

class LastSpeed : public SpeedPredictor {
 public:
  void observe(double samples_per_second) override {
    if (is_speed(samples_per_second)) last_ = samples_per_second;
  }
  double predict() const override { return last_; }

 private:
  double last_ = 0;
};

// Of the logarithm: being twice as fast and half as fast weigh the same.
class AverageSpeed : public SpeedPredictor {
 public:
  void observe(double samples_per_second) override {
    if (!is_speed(samples_per_second)) return;
    const double log_speed = std::log(samples_per_second);
    level_ = any_ ? level_ + kEmaWeight * (log_speed - level_) : log_speed;
    any_ = true;
  }
  double predict() const override { return any_ ? std::exp(level_) : 0; }

 private:
  double level_ = 0;
  bool any_ = false;
};

}  // namespace

bool is_speed(double value) { return std::isfinite(value) && value > 0; }

std::unique_ptr<SpeedPredictor> make_speed_predictor(PredictorKind kind) {
  switch (kind) {
    case PredictorKind::last:
      return std::make_unique<LastSpeed>();
    case PredictorKind::lstm:
      return make_lstm_predictor(shipped_speed_lstm());
    case PredictorKind::ema:
      break;
  }
  return std::make_unique<AverageSpeed>();
}

}  // namespace dtune
