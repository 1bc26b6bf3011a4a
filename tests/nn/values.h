// Values for tests of kernels, and how far two lists of them are apart.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "dtune/base/random.h"

namespace dtune {

using Values = std::vector<float>;

// From -1 to 1.
inline Values random_values(int64_t count, uint64_t seed) {
  Rng rng(seed);
  Values values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(rng.uniform(-1, 1));
  return values;
}

// Largest difference over the largest magnitude of `expected`.
template <typename A, typename B>
double worst(const A& actual, const B& expected) {
  REQUIRE(actual.size() == expected.size());
  double largest = 0;
  double difference = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(double{expected[i]}));
    difference =
        std::max(difference, std::abs(double{actual[i]} - double{expected[i]}));
  }
  return difference / largest;
}

}  // namespace dtune
