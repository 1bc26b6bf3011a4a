// Values by their rank among others, each O(n).
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace dtune {

// The value with `place` smaller ones before it. REQUIRES: place < size.
template <class T>
T order_statistic(std::vector<T> values, size_t place) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(place);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// The larger of the two middle values where their number is even. REQUIRES:
// values is not empty.
template <class T>
T upper_median(std::vector<T> values) {
  const size_t middle = values.size() / 2;
  return order_statistic(std::move(values), middle);
}

}  // namespace dtune
