#include "dtune/data/batches.h"

#include <vector>

#include <doctest/doctest.h>

using namespace dtune;  // NOLINT: a test

TEST_CASE("batches cover every epoch once") {
  for (const int64_t samples : std::vector<int64_t>{1, 2, 7, 128, 129, 300}) {
    const BatchCutter cutter(samples, 128);
    int64_t position = 0;
    int64_t number = 0;
    while (position < 3 * samples) {
      const BatchRange batch = cutter.at(position);
      CHECK(batch.epoch == position / samples);
      CHECK(batch.first == position % samples);
      CHECK(batch.number == number++);
      CHECK(batch.size >= 1);
      CHECK(batch.size <= cutter.largest_batch());
      position += batch.size;
    }
    CHECK(position == 3 * samples);
  }
}

TEST_CASE("a remainder of one sample joins the batch before") {
  CHECK(BatchCutter(129, 128).at(0).size == 129);
  CHECK(BatchCutter(130, 128).at(0).size == 128);
}
