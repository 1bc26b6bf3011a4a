// Work on a range, shared out evenly over ATen's threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>

#include <ATen/Parallel.h>

namespace dtune {

struct Range {
  int64_t begin;
  int64_t end;

  int64_t size() const { return end - begin; }
};

// How many ranges for_each_range makes of so many items.
inline size_t range_count(int64_t items) {
  return static_cast<size_t>(std::min<int64_t>(items, at::get_num_threads()));
}

// Calls `work` for each range at the same time, with the range's number: for a
// given number of threads the ranges are always the same.
inline void for_each_range(int64_t items,
                           const std::function<void(size_t, Range)>& work) {
  const auto count = static_cast<int64_t>(range_count(items));
  at::parallel_for(0, count, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      work(static_cast<size_t>(i),
           {items * i / count, items * (i + 1) / count});
    }
  });
}

}  // namespace dtune
