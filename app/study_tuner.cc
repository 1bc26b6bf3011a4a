#include "app/study_tuner.h"

#include <utility>

#include "dtune/tuner/factory.h"

namespace dtune {

ReplayTuner tuner_of(const Recipe& recipe, int horizon) {
  Tuner tuner = make_tuner(recipe, horizon);
  return {std::move(tuner.sampler), std::move(tuner.scheduler)};
}

}  // namespace dtune
