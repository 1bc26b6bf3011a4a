#include "dtune/simulate/calibration.h"

#include <bit>
#include <cmath>

namespace dtune {

void CalibrationObserver::on_report(const Study& study, const Trial& trial) {
  const int steps = trial.steps();
  if (!std::has_single_bit(static_cast<unsigned>(steps))) return;
  if (2 * steps < study.horizon) check(study, trial, 2 * steps);
  if (steps < study.horizon) check(study, trial, study.horizon);
}

void CalibrationObserver::check(const Study& study, const Trial& trial,
                                int step) {
  auto prediction = tuner_.sampler->predict(study, trial, step);
  if (!prediction) {
    prediction = tuner_.scheduler->predict(study, trial, step);
  }
  if (!prediction) return;
  const double observed = observation(world_, options_, trial, step);
  if (!std::isfinite(observed)) return;
  const bool maximize = study.recipe.objective.goal == Goal::maximize;
  const double metric = maximize ? observed : -observed;
  ++coverage_.predictions;
  if (metric >= prediction->low && metric <= prediction->high) {
    ++coverage_.inside;
  }
}

}  // namespace dtune
