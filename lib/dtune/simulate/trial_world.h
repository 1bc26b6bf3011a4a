// What a simulated study trains in place of networks: curves that were
// recorded, on a grid (cube_world.h) or trial by trial (table_world.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dtune/curves/cube.h"
#include "dtune/study/study.h"

namespace dtune {

// Immutable once made; thread-safe: many studies run in one world at once.
class TrialWorld {
 public:
  virtual ~TrialWorld() = default;

  // The data set: what a prior that is tried here must not have seen.
  virtual const std::string& task() const = 0;
  // What is fixed beside the space, where it is known.
  virtual const CubeContext& context() const = 0;
  // The space, the objective and what else is known of the trainings; sampler,
  // scheduler, seed and budget are as the defaults.
  virtual const Recipe& recipe() const = 0;
  virtual int steps() const = 0;  // of a full training

  // The point that is trained where `proposal` was asked for: itself, or the
  // recorded one that is nearest and that no trial of the study has. Empty
  // where all are taken.
  virtual std::optional<Point> settle(const Point& proposal,
                                      const Study& study) const = 0;

  // The objective without noise, larger is better; not finite where the trial
  // diverged. REQUIRES: settle() gave the point; 1 <= step <= steps().
  virtual double value(const Point& point, int step) const = 0;

  // What one training reports: as value(), with the deviation of a recorded
  // training, which `choice` selects. The same as value() where none was
  // recorded.
  virtual double single(const Point& point, int step,
                        uint64_t /*choice*/) const {
    return value(point, step);
  }

  // The worth of a point that was chosen by what the training reported that
  // `choice` selects: by the other trainings, with less noise than theirs where
  // neighbours tell (RecordedCurves::worth). The same as value() where no two
  // were recorded.
  virtual double judged(const Point& point, int step,
                        uint64_t /*choice*/) const {
    return value(point, step);
  }

  // What the best of all points and steps is worth. Regret is to it, so where
  // trainings have noise it may be a little below 0.
  virtual double best() const = 0;
  virtual double median_final() const = 0;  // over all points, at the end
};

}  // namespace dtune
