#include "dtune/speed/speed_history.h"

#include <algorithm>
#include <cmath>

#include "dtune/base/error.h"

namespace dtune {
namespace {

constexpr double kFast = 0.5;  // weights of the newest value
constexpr double kSlow = 0.1;
constexpr double kHoltLevel = 0.6;
constexpr double kHoltTrend = 0.3;
constexpr double kFirstNoise = 0.05;
constexpr double kLargestTrend = 0.5;
constexpr double kJump = 4.5;       // mean deviations
constexpr double kLeastJump = 0.1;  // in the logarithm
constexpr double kErrorWeight = 0.07;
constexpr double kLargestError = 2;
// From the level: a factor of 20. A jump further off is forgotten.
constexpr double kFarthest = 3;
constexpr double kMemory = 0.15;  // least weight of the newest in a regime

double squash(double x) { return 2 * std::tanh(0.5 * x); }

void approach(double& value, double goal, double weight) {
  value += weight * (goal - value);
}

}  // namespace

void SpeedHistory::start(double log_speed) {
  last_ = before_ = fast_ = slow_ = holt_ = log_speed;
  noise_ = spread_ = kFirstNoise;
  regimes_[0] = {log_speed, 1};
  regime_count_ = 1;
  errors_.fill(kFirstNoise);
  predict();
}

bool SpeedHistory::jumps(double log_speed) const {
  const double far = std::max(kJump * noise_, kLeastJump);
  return std::abs(log_speed - regimes_[0].level) > far;
}

void SpeedHistory::follow_regime(double log_speed) {
  if (!jumps(log_speed)) {
    Regime& now = regimes_[0];
    approach(noise_, std::abs(log_speed - now.level), 0.1);
    now.length += 1;
    approach(now.level, log_speed, std::max(1 / now.length, kMemory));
    return;
  }
  std::shift_right(regimes_.begin(), regimes_.end(), 1);
  regimes_[0] = {log_speed, 1};
  regime_count_ = std::min(regime_count_ + 1, regimes_.size());
  // Back where it was before the last jump: that level is known better.
  const double off = log_speed - regimes_[2].level;
  if (regime_count_ > 2 && std::abs(off) < std::max(3 * noise_, kLeastJump)) {
    regimes_[0].level = log_speed - 0.6 * off;
  }
}

void SpeedHistory::observe(double log_speed) {
  DTUNE_CHECK(std::isfinite(log_speed));
  season_.observe(log_speed);
  if (count_++ == 0) return start(log_speed);
  for (size_t k = 0; k < kSpeedCandidates; ++k) {
    const double error = std::abs(log_speed - predicted_[k]);
    approach(errors_[k], std::min(error, kLargestError), kErrorWeight);
  }
  const double off = std::abs(log_speed - slow_);
  approach(spread_, std::min(off, 1.0), kSlow);
  follow_regime(log_speed);
  const double held = holt_;
  holt_ += trend_;
  approach(holt_, log_speed, kHoltLevel);
  approach(trend_, holt_ - held, kHoltTrend);
  trend_ = std::clamp(trend_, -kLargestTrend, kLargestTrend);
  approach(fast_, log_speed, kFast);
  approach(slow_, log_speed, kSlow);
  before_ = last_;
  last_ = log_speed;
  predict();
}

void SpeedHistory::predict() {
  const double other =
      regime_count_ > 1 ? regimes_[1].level : regimes_[0].level;
  predicted_ = {last_,
                fast_,
                slow_,
                regimes_[0].level,
                other,
                holt_ + trend_,
                season_.period() > 0 ? season_.predict() : slow_};
}

SpeedMoment SpeedHistory::moment() const {
  DTUNE_CHECK(count_ > 0);
  SpeedMoment moment;
  moment.level = regimes_[0].level;
  moment.spread = spread_;
  moment.candidates = predicted_;
  for (double& value : moment.candidates) {
    value = std::clamp(value - moment.level, -kFarthest, kFarthest);
  }
  fill_inputs(moment);
  return moment;
}

void SpeedHistory::fill_inputs(SpeedMoment& moment) const {
  const auto length = [&](size_t i) {
    return i < regime_count_ ? std::log(regimes_[i].length) / 2 : 0;
  };
  const auto compare = [&](size_t a, size_t b) {
    if (std::max(a, b) >= regime_count_) return 0.0;
    return 2 * std::log(regimes_[a].length / regimes_[b].length);
  };
  // Sharper than the ratio where regimes are long.
  const double beyond =
      regime_count_ > 2 ? (regimes_[0].length - regimes_[2].length) / 2 : 0;
  const auto& to = moment.candidates;
  moment.inputs = {3 * to[0],
                   3 * (last_ - before_),
                   3 * to[1],
                   2 * to[2],
                   2 * to[4],
                   8 * trend_,
                   length(0) - 1,
                   length(1) - 1,
                   compare(0, 2),
                   compare(1, 3),
                   beyond,
                   2 * to[6],
                   0.5 * (std::log(noise_ + 1e-3) + 3.5),
                   0.7 * (std::log(spread_ + 1e-3) + 2.5),
                   0.7 * (std::log(errors_[0] + 1e-3) + 2.5),
                   count_ < 4 ? 1.0 : 0.0};
  constexpr size_t kFixed = kSpeedInputs - (kSpeedCandidates - 1);
  for (size_t k = 1; k < kSpeedCandidates; ++k) {
    moment.inputs[kFixed + k - 1] =
        1.5 * std::log((errors_[k] + 1e-3) / (errors_[0] + 1e-3));
  }
  for (double& value : moment.inputs) value = squash(value);
}

}  // namespace dtune
