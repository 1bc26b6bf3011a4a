// Grid features by chance, for tests of the network.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "dtune/base/random.h"
#include "dtune/surrogate/correction.h"

namespace dtune {

inline constexpr size_t kFeaturePlaces = size_t{kGridFrames} * kGridVoxels;

struct FeatureSample {
  GridFeatures study;
  std::vector<float> target;
  std::vector<float> weight;
};

// A study with about a dozen observations, and what a network should say of
// it: targets lie above the mean where lr is high, by `lean` deviations.
inline FeatureSample feature_sample(uint64_t seed, double lean = 1) {
  Rng rng(seed);
  FeatureSample sample;
  GridFeatures& study = sample.study;
  study.best = 0.8;
  study.scale = 0.1;
  for (size_t i = 0; i < kFeaturePlaces; ++i) {
    const double lr = static_cast<double>(i % kGridVoxels) / kGridVoxels;
    const double deviation = 0.02 + 0.1 * rng.uniform();
    const double mean = 0.5 + 0.3 * std::sin(4 * lr) + 0.02 * rng.normal();
    const bool seen = rng.below(100) == 0;
    const double z = lean * (lr - 0.5) * 2 + rng.normal();
    study.mean.push_back(static_cast<float>(mean));
    study.deviation.push_back(static_cast<float>(deviation));
    study.seen.push_back(seen ? 1.0F : 0.0F);
    study.value.push_back(seen ? static_cast<float>(mean) : 0.0F);
    study.pending.push_back(rng.below(200) == 0 ? 1.0F : 0.0F);
    sample.target.push_back(static_cast<float>(mean + z * deviation));
    sample.weight.push_back(rng.below(4) == 0 ? 0.0F : 1.0F);
  }
  return sample;
}

}  // namespace dtune
