// Regression forests over the unit cube, as partitions into boxes.
#pragma once

#include <cstdint>
#include <vector>

#include "dtune/base/random.h"

namespace dtune {

// A sample: coordinates in [0, 1] and the value seen there.
struct ForestSample {
  std::vector<double> at;
  double value = 0;
  size_t group = 0;  // samples of a group are drawn together (a trial's steps)
};

struct ForestOptions {
  int trees = 48;
  int min_leaf = 2;       // samples
  double features = 0.8;  // share of the coordinates looked at for a split
};

// A leaf: its box and the mean of its samples.
struct ForestBox {
  std::vector<double> low;
  std::vector<double> high;
  double mean = 0;
};

// The boxes of one tree partition the cube.
using ForestTree = std::vector<ForestBox>;

// Random forest (Breiman 2001, doi 10.1023/A:1010933404324): every tree is
// grown on a bootstrap of the groups; each split is the one, among a random
// share of the coordinates, that lowers the squared error most. O(trees n log n
// d) in time. REQUIRES: samples of one dimension, at least one.
std::vector<ForestTree> grow_forest(const std::vector<ForestSample>& samples,
                                    const ForestOptions& options,
                                    uint64_t seed);

}  // namespace dtune
