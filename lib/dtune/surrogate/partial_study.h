// Studies by chance, as a freeze-thaw tuner would have made them: what the
// network is trained and judged on.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dtune/base/random.h"
#include "dtune/surrogate/freeze_thaw_process.h"

namespace dtune {

// The truth of a data set: a metric at every point and time of a prior's axes,
// interpolated linearly between them (time in its logarithm).
class StudyCube {
 public:
  // REQUIRES: values.size() == axes.size().
  StudyCube(CubeAxes axes, std::vector<float> values);

  const CubeAxes& axes() const { return axes_; }
  double value(const CubePoint& point, double time) const;

  // The same data set where axis 0 (lr), 1 (L2) or 2 (dropout) is bent by a
  // monotone map of the axis on itself, ends kept; `reversed` turns it round,
  // so that what recorded studies teach misleads. `bend` > 0, 1 for none.
  StudyCube bent(int axis, double bend, bool reversed) const;
  // a + b y of every value.
  StudyCube scaled(double a, double b) const;

 private:
  CubeAxes axes_;
  std::vector<float> values_;
};

// A study of this cube of `count` observations in the order made, by one of
// several policies: few long curves, many short ones, the best curves so far and
// points around them, or anything. Starts at `first` most of the time. Half of
// the studies observe at the prior's times, the others at whole steps of trainings
// of 4 to 51 steps. Observations have normal noise of this deviation; a part of
// its variance, drawn for each study, is common to all of a training. Its
// beginnings are studies too.
std::vector<ProcessObservation> partial_study(const StudyCube& cube,
                                              const CubePoint& first,
                                              size_t count, double noise,
                                              Rng& rng);

// What `slots` slots would be training after the first `done` of these
// observations: the next ones, one of a point.
std::vector<ProcessInput> pending_after(
    std::span<const ProcessObservation> observations, size_t done,
    size_t slots);

}  // namespace dtune
