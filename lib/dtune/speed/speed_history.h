// What the speed predictor's network sees of the speeds so far. Everything
// is a difference of logarithms: only ratios of speeds matter.
#pragma once

#include <array>
#include <cstddef>

#include "dtune/speed/speed_season.h"

namespace dtune {

inline constexpr size_t kSpeedInputs = 22;
inline constexpr size_t kSpeedCandidates = 7;

// At one round. Candidates are predictions of the next log speed, relative to
// `level`; so is the network's output.
struct SpeedMoment {
  double level = 0;   // mean of the present regime
  double spread = 0;  // recent mean deviation, at most 1
  std::array<double, kSpeedInputs> inputs{};  // within [-2, 2]
  std::array<double, kSpeedCandidates> candidates{};
};

// Smooths, and cuts the speeds into regimes: stretches between jumps, which
// are observations far off the present regime's mean in terms of the noise.
// Cheap (no allocation). Not thread-safe.
class SpeedHistory {
 public:
  // The logarithm of a speed. REQUIRES: finite.
  void observe(double log_speed);
  // REQUIRES: something was observed.
  SpeedMoment moment() const;
  bool empty() const { return count_ == 0; }

 private:
  struct Regime {
    double level = 0;
    double length = 0;  // rounds
  };

  void start(double log_speed);
  void follow_regime(double log_speed);
  bool jumps(double log_speed) const;
  void predict();
  void fill_inputs(SpeedMoment& moment) const;

  size_t count_ = 0;
  double last_ = 0;
  double before_ = 0;
  double fast_ = 0;  // moving averages of the logarithm
  double slow_ = 0;
  double spread_ = 0;  // of its distance to slow_
  double noise_ = 0;   // of its distance to the regime, jumps left out
  double holt_ = 0;    // Holt's linear smoothing: level and
  double trend_ = 0;   // slope a round
  std::array<Regime, 4> regimes_{};  // newest first
  size_t regime_count_ = 0;
  SpeedSeason season_;
  std::array<double, kSpeedCandidates> predicted_{};
  std::array<double, kSpeedCandidates> errors_{};  // recent mean, of each
};

}  // namespace dtune
