#include "app/study_tuner.h"

#include "dtune/tuner/factory.h"

namespace dtune {

ReplayTuner tuner_of(const Recipe& recipe, int horizon) {
  return {make_sampler(recipe), make_scheduler(recipe, horizon)};
}

}  // namespace dtune
