#include "dtune/gang/epoch_queue.h"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "dtune/base/random.h"

namespace dtune::gang {
namespace {

int64_t total(const std::vector<Span>& spans) {
  int64_t sum = 0;
  for (const Span& span : spans) sum += span.size;
  return sum;
}

}  // namespace

TEST_CASE("what no rank drops comes out as one process cuts it") {
  for (const int64_t samples : {1, 2, 7, 64, 65, 97, 128}) {
    for (const int64_t batch : {1, 2, 3, 32, 200}) {
      const BatchCutter cutter(samples, batch);
      EpochQueue queue(cutter, batch, 0, 3 * samples);
      while (!queue.done()) {
        const QueuedBatch next = queue.next();
        const BatchRange want = cutter.at(queue.position());
        REQUIRE(next.number == want.number);
        REQUIRE(next.epoch == want.epoch);
        REQUIRE(next.spans.size() == 1);
        REQUIRE(next.spans[0].first == want.first);
        REQUIRE(next.size == want.size);
        queue.accept(next.spans);
      }
      CHECK(queue.position() == 3 * samples);
    }
  }
}

TEST_CASE("dropped samples come again within their epoch and step") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    const int64_t samples = 20 + static_cast<int64_t>(rng.below(200));
    const int64_t batch = 1 + static_cast<int64_t>(rng.below(40));
    const BatchCutter cutter(samples, batch);
    EpochQueue queue(cutter, batch, 0,
                     1 + static_cast<int64_t>(rng.below(3 * 200)));
    std::vector<std::vector<Span>> log;
    int64_t most = 0;
    while (!queue.done()) {
      const QueuedBatch next = queue.next();
      REQUIRE(total(next.spans) == next.size);
      most = std::max(most, next.size);
      const auto kept =
          1 + static_cast<int64_t>(rng.below(static_cast<uint64_t>(next.size)));
      const auto first = static_cast<int64_t>(
          rng.below(static_cast<uint64_t>(next.size - kept + 1)));
      log.push_back(slice(next.spans, first, kept));
      queue.accept(log.back());
      if (rng.uniform() < 0.1) {  // a survivor holds less
        const size_t undone = rng.below(std::min<size_t>(log.size(), 4) + 1);
        log.resize(log.size() - undone);
        queue.keep(static_cast<int64_t>(log.size()));
      }
    }
    CHECK(most <= batch + 1);
    std::vector<int> seen(static_cast<size_t>(queue.position()), 0);
    int64_t before = 0;
    for (const auto& spans : log) {
      const int64_t epoch = before / samples;
      for (const Span& span : spans) {
        for (int64_t i = 0; i < span.size; ++i) {
          ++seen.at(static_cast<size_t>(epoch * samples + span.first + i));
        }
      }
      before += total(spans);
    }
    CHECK(seen == std::vector<int>(seen.size(), 1));
  }
}

}  // namespace dtune::gang
