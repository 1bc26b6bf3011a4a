// The network's answer between its voxels.
#pragma once

#include <span>

#include "dtune/surrogate/grid_features.h"

namespace dtune {

// At the frame nearest to `time`: weights and shifts interpolated linearly
// between voxels, scales in the logarithm. REQUIRES: field is
// [frame][voxel] of the grid.
Correction interpolate(const FeatureGrid& grid,
                       std::span<const Correction> field,
                       const CubePoint& point, double time);

}  // namespace dtune
