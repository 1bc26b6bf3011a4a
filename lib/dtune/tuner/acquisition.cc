#include "dtune/tuner/acquisition.h"

#include <cmath>

#include "dtune/base/random.h"

namespace dtune {

Ambition draw_ambition(uint64_t seed, int64_t decision, int horizon) {
  Rng rng(mix_seed({seed, hash_text("ambition"), uint64_t(decision)}));
  const int steps = 1 + static_cast<int>(rng.below(uint64_t(horizon)));
  return {steps, std::pow(10.0, rng.uniform(-4, -1))};
}

}  // namespace dtune
