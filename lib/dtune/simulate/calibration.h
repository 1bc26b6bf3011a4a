// Whether a tuner's predictions hold: how often the band that it gives for a
// later step holds what is observed there.
#pragma once

#include <cstdint>

#include "dtune/simulate/simulator.h"

namespace dtune {

struct Coverage {
  int64_t predictions = 0;
  int64_t inside = 0;  // of the 90% band
};

// Asks the sampler, or where that cannot say the scheduler, whenever a trial
// has reported step 1, 2, 4, 8, ...: what will it report at twice that step,
// and at the last one? The answers are compared with what the simulation would
// observe there, noise included, whether or not it trains so far. Tuners that
// predict nothing give no predictions. Keeps references.
class CalibrationObserver final : public SimulationObserver {
 public:
  CalibrationObserver(const TrialWorld& world, const SimulatedTuner& tuner,
                      const SimulationOptions& options)
      : world_(world), tuner_(tuner), options_(options) {}

  void on_report(const Study& study, const Trial& trial) override;

  const Coverage& coverage() const { return coverage_; }

 private:
  void check(const Study& study, const Trial& trial, int step);

  const TrialWorld& world_;
  const SimulatedTuner& tuner_;
  const SimulationOptions& options_;
  Coverage coverage_;
};

}  // namespace dtune
