// A recorded cube as a world to simulate studies in.
#pragma once

#include <memory>

#include "dtune/curves/recorded_curves.h"
#include "dtune/simulate/trial_world.h"

namespace dtune {

// Space: lr -> train.lr and l2 -> train.l2 (log), dropout -> model.dropout,
// over the ranges that were recorded; an axis of one value is fixed. Between
// grid points values are interpolated. The recipe has the context: batch size,
// momentum, and `depth` hidden layers of `width` units.
std::unique_ptr<TrialWorld> make_cube_world(RecordedCurves curves);

// The recipe of that world alone.
Recipe cube_recipe(const RecordedCurves& curves);

}  // namespace dtune
