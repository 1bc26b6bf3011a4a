// A flat gradient cut into what is reduced at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dtune/nn/network.h"

namespace dtune {

// Elements [begin, end) of the flat gradient.
struct Bucket {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};

// Where in the flat gradient everything is final once the backward of a layer
// is done: elements from begins[layer] on. Layers that come after the last one
// with weights: the end.
std::vector<int64_t> layer_begins(std::span<const ParameterSlice> slices);

// From the end to the beginning, as gradients become final; the same on all
// ranks. Layers are put together until a bucket has `bucket_bytes`, the first
// one only a quarter of it, so that reducing begins early (Li et al. 2020,
// arXiv 2006.15704, section 3.2.3: buckets in reverse order, overlapped with
// the backward pass). Deviations: the first is smaller still where the network
// is; a bucket ends with a layer, so that a large layer is never kept waiting
// by a small one before it; what is larger than `bucket_bytes` is cut into
// equal pieces.
std::vector<Bucket> cut_buckets(std::span<const int64_t> begins,
                                int64_t elements, int64_t bucket_bytes);

}  // namespace dtune
