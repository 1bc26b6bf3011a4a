// Recorded curves on the axes of a prior: what it is learnt from.
#pragma once

#include <vector>

#include "dtune/curves/recorded_curves.h"
#include "dtune/surrogate/learnt_prior.h"

namespace dtune {

// Components that a prior keeps, of a training on some hundred cubes.
inline constexpr size_t kPriorComponents = 96;

// The whole steps nearest to epochs 1 2 4 7 13 22 34 51 of 51, of a training of
// `horizon` steps: ascending, the last one is the horizon. REQUIRES: horizon >= 1.
std::vector<int> ladder_steps(int horizon);

// The axes of the curves, in the coordinates of SGD (curves/cube.h); where they
// differ, half decades of learning rate, decades of L2 and steps of .3 of
// dropout over all that they span. As times, epochs 1 2 4 7 13 22 34 51 of
// 51. Throws Error(data): no curves, fewer than two values on an axis.
CubeAxes prior_axes(const std::vector<RecordedCurves>& curves);

// The curves read at these axes: interpolated, clamped at the ends of what was
// recorded. Numbers of the context that are not known become those of
// LCBench's middle: batch size 64, width 256, momentum .9, depth 3.
// The curves at u are those that were recorded at u - shift. The deviation of
// trainings: from the middle of |z of one training - z of another| over the
// better half of the recorded points, as a normal distribution has it (Hampel 1974,
// doi 10.1080/01621459.1974.10482962), so that few trainings that collapse do not
// count.
RecordedCube recorded_cube(const RecordedCurves& curves, const CubeAxes& axes,
                           const CubePoint& shift = {0, 0, 0});

// From fewer curves than this, shifted_cubes() are learnt from.
inline constexpr size_t kFewCurves = 100;

// Each of the curves as they are and with their rates half a decade, their L2 a
// decade lower and higher: data sets differ in where their best points lie, and
// a few recorded ones do not show by how much.
std::vector<RecordedCube> shifted_cubes(
    const std::vector<RecordedCurves>& curves, const CubeAxes& axes);

}  // namespace dtune
