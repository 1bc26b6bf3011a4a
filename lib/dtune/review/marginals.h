// What a tree of a forest says of one or two coordinates: means over all
// others, and how much of its variance they make.
#pragma once

#include <vector>

#include "dtune/review/forest.h"

namespace dtune {

// A function of one coordinate that is constant between breaks.
struct Effect {
  std::vector<double> breaks;  // 0, ..., 1
  std::vector<double> values;  // one less

  double mean() const;
  double variance() const;
  double at(double u) const;
};

// The boxes of a tree whose last coordinate reaches 1. The functions below look
// at the coordinates before it.
ForestTree end_of_last(const ForestTree& tree);

double total_variance(const ForestTree& slice);

// The mean over all other coordinates.
Effect main_effect(const ForestTree& slice, size_t axis);

// The mean over all other coordinates at the middles of `places` x `places`
// even cells: row after row, a row for each cell of `first`.
std::vector<double> pair_effect(const ForestTree& slice, size_t first,
                                size_t second, size_t places);

}  // namespace dtune
