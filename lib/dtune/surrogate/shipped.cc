#include "dtune/surrogate/shipped.h"

#include "dtune/surrogate/weights/embedded.h"

namespace dtune {

const LearntPrior& shipped_prior() {
  static const LearntPrior prior =
      LearntPrior::load(embedded_prior(), "the shipped prior");
  return prior;
}

}  // namespace dtune
