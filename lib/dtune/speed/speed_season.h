// Finds out after how many rounds speeds come back.
#pragma once

#include <array>
#include <cstddef>

namespace dtune {

// For every lag L the moving average of |s_t - s_(t-L)|: the period is the lag
// whose average is the least (the average magnitude difference function of Ross
// et al. 1974, doi 10.1109/TASSP.1974.1162598, over an exponential window). A
// round costs as many additions as there are lags. Not thread-safe.
class SpeedSeason {
 public:
  static constexpr size_t kLongest = 90;
  static constexpr size_t kShortest = 3;

  void observe(double log_speed);
  // Rounds; 0 where none was seen one and a half times.
  size_t period() const { return period_; }
  // The speeds one and two periods before the next round, averaged.
  // REQUIRES: period() > 0.
  double predict() const;

 private:
  static constexpr size_t kKept = 2 * kLongest + 2;

  // `rounds` ago; 0 is the newest.
  double ago(size_t rounds) const {
    return values_[(count_ - 1 - rounds) % kKept];
  }
  void find_period();

  size_t count_ = 0;
  size_t period_ = 0;
  std::array<double, kKept> values_{};             // a ring
  std::array<double, kLongest + 1> difference_{};  // by lag
};

}  // namespace dtune
