// What a study's tuner expects at a moment.
#pragma once

#include "dtune/study/tuner.h"

namespace dtune {

// The scheduler's words where it has any, else the sampler's.
std::optional<Prediction> predict_step(const Explainer& scheduler,
                                       const Explainer& sampler,
                                       const Study& study, const Trial& trial,
                                       int step);
// The forecast is that of `trial` at `step`; numbers that are not finite are
// left out.
Belief belief_of(const Explainer& scheduler, const Explainer& sampler,
                 const Study& study, const Trial& trial, int step);

}  // namespace dtune
