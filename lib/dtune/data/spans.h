// Runs of samples, and what to do with lists of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dtune {

// Consecutive items: of an epoch's order or of evaluation batches.
struct Span {
  int64_t first = 0;
  int64_t size = 0;
};

// How many samples they stand for.
int64_t samples_of(std::span<const Span> spans);

// The part [first, first + size) of the samples that `spans` stand for, in
// their order.
std::vector<Span> slice(std::span<const Span> spans, int64_t first,
                        int64_t size);

// Spans in ascending order; neighbours become one.
std::vector<Span> merged(std::vector<Span> spans);

// `from` without `what`. REQUIRES: both ascending, the second within the first.
std::vector<Span> without(const std::vector<Span>& from,
                          const std::vector<Span>& what);

}  // namespace dtune
