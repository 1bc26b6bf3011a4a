#include "dtune/speed/speed_season.h"

#include <algorithm>
#include <cmath>

#include "dtune/base/error.h"

namespace dtune {
namespace {

constexpr double kWeight = 0.03;  // of the newest difference
constexpr double kLargest = 3;    // difference that counts, against outliers
constexpr double kShorterWins = 1.1;  // a multiple of the period fits as well

}  // namespace

void SpeedSeason::observe(double log_speed) {
  values_[count_ % kKept] = log_speed;
  ++count_;
  const size_t lags = std::min(count_ - 1, kLongest);
  for (size_t lag = 1; lag <= lags; ++lag) {
    const double seen = static_cast<double>(count_ - lag);
    const double off = std::min(std::abs(log_speed - ago(lag)), kLargest);
    difference_[lag] += std::max(kWeight, 1 / seen) * (off - difference_[lag]);
  }
  find_period();
}

void SpeedSeason::find_period() {
  period_ = 0;
  const size_t lags = std::min((count_ - 1) * 2 / 3, kLongest);
  if (lags < kShortest) return;
  const auto from = difference_.begin() + kShortest;
  const auto to = difference_.begin() + static_cast<std::ptrdiff_t>(lags) + 1;
  const double least = *std::min_element(from, to);
  const auto found = std::find_if(from, to, [&](double difference) {
    return difference <= kShorterWins * least;
  });
  period_ = static_cast<size_t>(found - difference_.begin());
}

double SpeedSeason::predict() const {
  DTUNE_CHECK(period_ > 0);
  const double once = ago(period_ - 1);
  if (count_ < 2 * period_) return once;
  return 0.6 * once + 0.4 * ago(2 * period_ - 1);
}

}  // namespace dtune
