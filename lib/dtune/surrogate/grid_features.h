// Turns the few observations of a study into grid features, the dense frames
// that the network reads (correction.h): what the process says on the grid, and
// what was seen.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "dtune/surrogate/correction.h"
#include "dtune/surrogate/freeze_thaw_process.h"

namespace dtune {

// The study's own unit cube at a point of the recorded cube: parameters that
// the cube does not know have their usual value, points outside of the
// recipe's ranges lie at their ends.
using UnitOf = std::function<std::vector<double>(const CubePoint&)>;

// Where the network asks: kGridFrames * kGridVoxels inputs, [frame][lr][l2]
// [dropout]. Immutable; made once a study.
class FeatureGrid {
 public:
  // REQUIRES: axes.time.size() == kGridFrames.
  FeatureGrid(const CubeAxes& axes, const UnitOf& unit_of);

  std::span<const ProcessInput> inputs() const { return inputs_; }

  // The share that each voxel has in a point (linear interpolation; clamped
  // to the grid): up to eight voxels, the weights sum to 1.
  struct Share {
    size_t voxel;
    double weight;
  };
  std::vector<Share> shares(const CubePoint& point) const;
  // The frame nearest in the logarithm of time.
  size_t frame(double time) const;

 private:
  std::vector<double> log10_lr_;  // evenly spaced between the axes' ends
  std::vector<double> log10_l2_;
  std::vector<double> dropout_;
  std::vector<double> log_time_;
  std::vector<ProcessInput> inputs_;
};

// The unit coordinates of a study whose three parameters span these axes, in
// the order lr, L2, dropout, clamped to [0, 1].
UnitOf unit_of_axes(const CubeAxes& axes);

// `observations`: all that the process has seen; `pending`: what is being
// trained now. Values are z of the process's map. A few milliseconds.
GridFeatures grid_features(const FreezeThawProcess& process,
                           const FeatureGrid& grid,
                           std::span<const ProcessObservation> observations,
                           std::span<const ProcessInput> pending);

}  // namespace dtune
