#include "dtune/data/sample_queue.h"

#include <set>

#include <doctest/doctest.h>

using namespace dtune;

TEST_CASE("parts stay within a batch and leave no small remainders") {
  SampleQueue queue(BatchCutter(20, 8), 0, 20);
  CHECK(queue.left() == 20);
  const auto first = queue.take({5, 7});
  CHECK(first->size == 5);
  CHECK(queue.batch_left() == 3);
  const auto rest = queue.take({5, 7});
  CHECK(rest->size == 3);
  CHECK(rest->first_sample == 5);
  CHECK(rest->number == first->number);
  CHECK(queue.take({7, 8})->size == 8);
  CHECK(queue.take({5, 5})->size == 4);  // the epoch's last batch
  CHECK(queue.empty());
  CHECK(!queue.take({1, 1}));
}

TEST_CASE("what was given back comes first, the oldest before") {
  SampleQueue queue(BatchCutter(16, 8), 0, 16);
  const SamplePart a = *queue.take({4, 4});
  const SamplePart b = *queue.take({4, 4});
  const SamplePart c = *queue.take({4, 4});
  queue.give_back(c);
  queue.give_back(b);
  queue.give_back(a);
  CHECK(queue.next_batch() == 0);
  CHECK(queue.left() == 16);
  CHECK(queue.take({4, 4})->first == a.first);
  CHECK(queue.take({2, 2})->first == b.first);
  CHECK(queue.take({4, 4})->first == b.first + 2);
  CHECK(queue.take({4, 4})->first == c.first);
}

TEST_CASE("a queue goes over the end of an epoch") {
  SampleQueue queue(BatchCutter(10, 4), 8, 14);
  std::set<std::pair<int64_t, int64_t>> seen;
  int64_t samples = 0;
  while (const auto part = queue.take({3, 3})) {
    for (int64_t i = 0; i < part->size; ++i) {
      CHECK(seen.emplace(part->epoch, part->first + i).second);
    }
    samples += part->size;
  }
  CHECK(samples == 2 + 4);
  CHECK(seen.contains({0, 9}));
  CHECK(seen.contains({1, 3}));
}
