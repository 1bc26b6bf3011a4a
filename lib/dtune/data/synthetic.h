// A data set made from a seed, the same bits on every machine: each class is a
// coarse random pattern; a sample is its class's pattern, shifted, mixed with a
// coarse pattern of its own and with noise.
#pragma once

#include "dtune/data/prepared.h"

namespace dtune {

// spec: classes, channels, height, width, samples, difficulty, split_seed.
// With difficulty d the class's pattern has weight 1 - d and what hides it d:
// 0 is learnt from a few samples, 1 is chance. The test split has a quarter of
// `samples` in addition. Throws Error(config) for sizes that make no sense.
SourceData make_synthetic(const DataSpec& spec);

}  // namespace dtune
