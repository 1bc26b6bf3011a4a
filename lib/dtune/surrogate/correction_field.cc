#include "dtune/surrogate/correction_field.h"

#include <cmath>

namespace dtune {

Correction interpolate(const FeatureGrid& grid,
                       std::span<const Correction> field,
                       const CubePoint& point, double time) {
  const size_t first = grid.frame(time) * kGridVoxels;
  Correction sum = {};
  for (const FeatureGrid::Share& share : grid.shares(point)) {
    const Correction& c = field[first + share.voxel];
    for (size_t k = 0; k < kMixtureParts; ++k) {
      sum.weight[k] += share.weight * c.weight[k];
      sum.shift[k] += share.weight * c.shift[k];
      sum.scale[k] += share.weight * std::log(c.scale[k]);
    }
  }
  for (double& scale : sum.scale) scale = std::exp(scale);
  return sum;
}

}  // namespace dtune
