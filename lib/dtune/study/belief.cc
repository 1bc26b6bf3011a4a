#include "dtune/study/belief.h"

#include <cmath>

namespace dtune {

std::optional<Prediction> predict_step(const Explainer& scheduler,
                                       const Explainer& sampler,
                                       const Study& study, const Trial& trial,
                                       int step) {
  const auto prediction = scheduler.predict(study, trial, step);
  return prediction ? prediction : sampler.predict(study, trial, step);
}

Belief belief_of(const Explainer& scheduler, const Explainer& sampler,
                 const Study& study, const Trial& trial, int step) {
  Belief belief;
  belief.weights = scheduler.weights(study);
  if (step < kOpenHorizon) {
    belief.forecast = predict_step(scheduler, sampler, study, trial, step);
  }
  if (belief.weights.empty()) belief.weights = sampler.weights(study);
  const auto& forecast = belief.forecast;
  if (forecast &&
      !std::isfinite(forecast->mean + forecast->low + forecast->high)) {
    belief.forecast.reset();
  }
  return belief;
}

}  // namespace dtune
