// Recorded curves on the axes of a prior: what it is learnt from.
#pragma once

#include <vector>

#include "dtune/curves/recorded_curves.h"
#include "dtune/surrogate/learnt_prior.h"

namespace dtune {

// Components that a prior keeps, of a training on some hundred cubes.
inline constexpr size_t kPriorComponents = 96;

// The points of the first curves, and as times epochs 1 2 4 7 13 22 34 51 of
// 51. Throws Error(data): no curves, fewer than two values on an axis.
CubeAxes prior_axes(const std::vector<RecordedCurves>& curves);

// The curves read at these axes: interpolated, clamped at the ends of what was
// recorded. Numbers of the context that are not known become those of
// LCBench's middle: batch size 64, width 256, momentum .9, depth 3.
RecordedCube recorded_cube(const RecordedCurves& curves, const CubeAxes& axes);

}  // namespace dtune
