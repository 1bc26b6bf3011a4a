// Curves recorded on a grid of (learning rate, L2, dropout): what simulations
// train in place of a network.
#pragma once

#include <string>
#include <vector>

#include "dtune/surrogate/learnt_prior.h"

namespace dtune {

// values: [lr][l2][dropout][step], larger is better, in [0, 1]; steps 1 ..
// steps. Immutable once made; thread-safe.
struct RecordedCurves {
  std::string task;
  std::vector<double> log10_lr;
  std::vector<double> log10_l2;
  std::vector<double> dropout;
  int steps = 0;
  std::vector<float> values;

  // Interpolated linearly between grid points; clamped at the ends.
  // REQUIRES: 1 <= step <= steps.
  double value(const CubePoint& point, int step) const;

  double best() const;          // over all points and steps
  double median_final() const;  // over all points, at the last step
};

}  // namespace dtune
