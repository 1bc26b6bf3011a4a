// Linear interpolation between the points of a grid.
#pragma once

#include <array>
#include <cstddef>

#include "dtune/curves/cube.h"

namespace dtune {

// Calls visit(index, weight) for each corner with a weight of the cell in which
// the places lie; the weights sum to 1. `index` is that of the corner in a
// row-major array of these sizes, the last axis fastest.
template <size_t N, typename Visit>
void for_each_corner(const std::array<AxisPlace, N>& places,
                     const std::array<size_t, N>& sizes, Visit visit) {
  for (unsigned corner = 0; corner < (1U << N); ++corner) {
    double weight = 1;
    size_t index = 0;
    for (size_t axis = 0; axis < N; ++axis) {
      const bool upper = ((corner >> axis) & 1U) != 0;
      weight *= upper ? places[axis].weight : 1 - places[axis].weight;
      index = index * sizes[axis] + places[axis].index + (upper ? 1 : 0);
    }
    if (weight > 0) visit(index, weight);
  }
}

}  // namespace dtune
