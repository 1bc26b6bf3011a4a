#include "dtune/data_parallel/buckets.h"

#include <doctest/doctest.h>

using namespace dtune;

namespace {

ParameterSlice slice(int layer, int64_t offset, int64_t elements) {
  return {.name = "", .offset = offset, .shape = {elements}, .layer = layer};
}

// They must cover everything once, from the end.
void check_cover(const std::vector<Bucket>& buckets, int64_t elements) {
  int64_t end = elements;
  for (const Bucket& bucket : buckets) {
    CHECK(bucket.end == end);
    CHECK(bucket.begin < bucket.end);
    end = bucket.begin;
  }
  CHECK(end == 0);
}

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kQuarter = kMiB / 4;  // floats in a MiB

}  // namespace

TEST_CASE("a layer begins where its first slice does") {
  const std::vector<ParameterSlice> slices = {slice(0, 0, 10), slice(0, 10, 2),
                                              slice(3, 12, 8)};
  const std::vector<int64_t> begins = layer_begins(slices);
  // Layers 1 and 2 have no weights: nothing more is final after them.
  CHECK(begins == std::vector<int64_t>{0, 12, 12, 12, 20});
}

TEST_CASE("a network without weights has no buckets") {
  const std::vector<int64_t> begins = layer_begins({});
  CHECK(begins == std::vector<int64_t>{0});
  CHECK(cut_buckets(begins, 0, kMiB).empty());
}

TEST_CASE("the first bucket is small and the others are whole layers") {
  // Ten layers of 1 MiB each, buckets of 4 MiB.
  std::vector<int64_t> begins;
  for (int layer = 0; layer <= 10; ++layer) begins.push_back(layer * kQuarter);
  const auto buckets = cut_buckets(begins, 10 * kQuarter, 4 * kMiB);
  check_cover(buckets, 10 * kQuarter);
  REQUIRE(buckets.size() == 4);
  CHECK(buckets[0].size() == kQuarter);
  CHECK(buckets[1].size() == 4 * kQuarter);
  CHECK(buckets[2].size() == 4 * kQuarter);
  CHECK(buckets[3].size() == kQuarter);
}

TEST_CASE("a large layer does not wait for a small one before it") {
  const std::vector<int64_t> begins = {0, 20'000, 421'000, 422'000};
  const auto buckets = cut_buckets(begins, 422'000, 4 * kMiB);
  check_cover(buckets, 422'000);
  REQUIRE(buckets.size() == 2);
  CHECK(buckets[0].begin == 20'000);
}

TEST_CASE("what is larger than a bucket is cut into equal pieces") {
  const std::vector<int64_t> begins = {0, 1000, 1000 + 10 * kQuarter};
  const int64_t elements = begins.back();
  const auto buckets = cut_buckets(begins, elements, 4 * kMiB);
  check_cover(buckets, elements);
  REQUIRE(buckets.size() == 4);
  for (int i = 0; i < 3; ++i) {
    CHECK(buckets[static_cast<size_t>(i)].size() <= 4 * kQuarter);
    CHECK(buckets[static_cast<size_t>(i)].size() >= 3 * kQuarter);
  }
  CHECK(buckets[3].size() == 1000);
}
