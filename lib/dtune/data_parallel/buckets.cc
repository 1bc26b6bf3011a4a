#include "dtune/data_parallel/buckets.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace dtune {
namespace {

constexpr int64_t kLeastBytes = 64 << 10;
constexpr auto kFloatBytes = static_cast<int64_t>(sizeof(float));

int64_t end_of(const ParameterSlice& slice) {
  return slice.offset + std::accumulate(slice.shape.begin(), slice.shape.end(),
                                        int64_t{1}, std::multiplies<>());
}

// From the end, in pieces of equal size.
void push_pieces(const Bucket& bucket, int64_t most,
                 std::vector<Bucket>& buckets) {
  const int64_t pieces = (bucket.size() + most - 1) / most;
  for (int64_t i = pieces; i-- > 0;) {
    buckets.push_back({bucket.begin + bucket.size() * i / pieces,
                       bucket.begin + bucket.size() * (i + 1) / pieces});
  }
}

}  // namespace

std::vector<int64_t> layer_begins(std::span<const ParameterSlice> slices) {
  std::vector<int64_t> begins;
  int64_t end = 0;
  for (const ParameterSlice& slice : slices) {
    const auto layers = static_cast<size_t>(slice.layer) + 1;
    if (begins.size() < layers) begins.resize(layers, slice.offset);
    end = std::max(end, end_of(slice));
  }
  begins.push_back(end);
  return begins;
}

std::vector<Bucket> cut_buckets(std::span<const int64_t> begins,
                                int64_t elements, int64_t bucket_bytes) {
  const int64_t most = std::max<int64_t>(1, bucket_bytes / kFloatBytes);
  const int64_t quarter =
      std::max(std::min(most, elements) / 4, kLeastBytes / kFloatBytes);
  std::vector<Bucket> buckets;
  int64_t end = elements;
  for (auto begin = begins.rbegin(); begin != begins.rend(); ++begin) {
    const int64_t enough = buckets.empty() ? quarter : most;
    if (end - *begin < enough) continue;
    push_pieces({*begin, end}, most, buckets);
    end = *begin;
  }
  if (end > 0) push_pieces({0, end}, most, buckets);
  return buckets;
}

}  // namespace dtune
