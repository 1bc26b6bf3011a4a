// Small files of recorded curves, array by array, as NumPy writes them.
#pragma once

#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "data/fixtures.h"

namespace dtune::testing {

using Members = std::map<std::string, Bytes>;

template <typename Value>
Bytes raw_bytes(const std::vector<Value>& values) {
  Bytes bytes(values.size() * sizeof(Value));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

inline Bytes doubles(const std::vector<int64_t>& shape,
                     const std::vector<double>& values) {
  return npy_bytes("<f8", shape, raw_bytes(values));
}

// Axes of 2 x 2 x 1 points, three epochs, one task "a": values .01, .02, ...
inline Members small_curves() {
  std::vector<double> values;
  for (int i = 1; i <= 12; ++i) values.push_back(i / 100.0);
  return {{"learning_rate", doubles({2}, {0.001, 0.1})},
          {"l2", doubles({2}, {1e-6, 1e-2})},
          {"dropout", doubles({1}, {0.25})},
          {"val_accuracy_a", doubles({2, 2, 1, 3}, values)}};
}

}  // namespace dtune::testing
