#include "dtune/parameter_server/ps_cache.h"

#include <vector>

#include <doctest/doctest.h>

using namespace dtune;

namespace {

using Floats = std::vector<float>;

TrainSpec plain_sgd() {
  TrainSpec train;
  train.momentum = 0;
  return train;
}

void send(PsCache& cache, const ps::Layout& layout, int server, int64_t version,
          const Floats& weights, const ps::Served& served) {
  for (const ps::Range& piece : layout.pieces(server)) {
    cache.receive(server, {.content = ps::Content::weights,
                           .key = version,
                           .offset = piece.begin,
                           .floats = ps::bytes_of(std::span(weights).subspan(
                               static_cast<size_t>(piece.begin),
                               static_cast<size_t>(piece.size())))});
  }
  cache.served(server, served);
}

Floats read(const PsCache& cache, size_t size) {
  Floats weights(size);
  cache.read(weights);
  return weights;
}

}  // namespace

TEST_CASE("a copy is used when all servers have sent its version") {
  const ps::Layout layout(40, 2);
  PsCache cache(plain_sgd(), layout, {{0, 40, 0}});
  const Floats one(40, 1), two(40, 2);
  CHECK(cache.version() == -1);
  CHECK(cache.missing(1) == std::vector<int>{0, 1});
  // The second server is ahead.
  send(cache, layout, 1, 1, one, {.version = 1});
  send(cache, layout, 1, 2, two, {.version = 2});
  CHECK(cache.version() == -1);
  CHECK(cache.missing(1) == std::vector<int>{0});
  send(cache, layout, 0, 1, one, {.version = 1, .ticket = 3, .min_clock = 4});
  CHECK(cache.version() == 1);
  CHECK(cache.ticket() == 3);
  CHECK(cache.min_clock() == 4);
  CHECK(read(cache, 40) == one);
  send(cache, layout, 0, 2, two, {.version = 2});
  CHECK(read(cache, 40) == two);
  // Old ones change nothing.
  send(cache, layout, 0, 1, one, {.version = 1});
  CHECK(read(cache, 40) == two);
}

TEST_CASE("a worker reads its own writes until a copy has them") {
  const ps::Layout layout(2, 1);
  PsCache cache(plain_sgd(), layout, {{0, 2, 0.5}});
  send(cache, layout, 0, 1, {1, 2}, {.version = 1, .ticket = 0});
  cache.wrote(1, Floats{1, 0}, 0.1, 1);
  CHECK(read(cache, 2)[0] == doctest::Approx(1 - 0.1 * (1 + 0.5)));
  CHECK(read(cache, 2)[1] == doctest::Approx(2 - 0.1 * 1));
  cache.wrote(2, Floats{0, 10}, 0.1, 0.5);
  CHECK(read(cache, 2)[1] == doctest::Approx(1.9 - 0.1 * (5 + 0.95)));
  // This copy has the first, not the second.
  send(cache, layout, 0, 2, {5, 5}, {.version = 2, .ticket = 1});
  CHECK(read(cache, 2)[1] == doctest::Approx(5 - 0.1 * (5 + 0.95)));
  cache.served(0, {.version = 2, .ticket = 2});  // the same weights: dropped
  CHECK(read(cache, 2) == Floats{5, 5});
}

TEST_CASE("what was only sent is counted and not read") {
  const ps::Layout layout(2, 1);
  PsCache cache(plain_sgd(), layout, {{0, 2, 0}});
  send(cache, layout, 0, 1, {1, 2}, {.version = 1, .ticket = 0});
  constexpr auto kMost = static_cast<int64_t>(PsCache::kMostOwn);
  for (int64_t ticket = 1; ticket <= kMost; ++ticket) {
    CHECK_FALSE(cache.full());
    cache.sent(ticket);
  }
  CHECK(cache.full());
  CHECK(read(cache, 2) == Floats{1, 2});
  send(cache, layout, 0, 2, {5, 5}, {.version = 2, .ticket = kMost});
  CHECK_FALSE(cache.full());
}

TEST_CASE(
    "a version that is sent again before it is whole has the later ticket") {
  const ps::Layout layout(40, 2);
  PsCache cache(plain_sgd(), layout, {{0, 40, 0}});
  const Floats one(40, 1);
  send(cache, layout, 0, 1, one, {.version = 1, .ticket = 3, .min_clock = 2});
  send(cache, layout, 0, 1, one, {.version = 1, .ticket = 5, .min_clock = 3});
  CHECK(cache.version() == -1);
  send(cache, layout, 1, 1, one, {.version = 1});
  CHECK(cache.version() == 1);
  CHECK(cache.ticket() == 5);
  CHECK(cache.min_clock() == 3);
}

TEST_CASE("pieces that do not fit are ignored") {
  const ps::Layout layout(40, 2);
  PsCache cache(plain_sgd(), layout, {{0, 40, 0}});
  const Floats values(40, 7);
  for (const int64_t offset : {-1L, 30L, 40L, 1L << 60}) {
    cache.receive(0, {.content = ps::Content::weights,
                      .key = 1,
                      .offset = offset,
                      .floats = ps::bytes_of(values)});
  }
  for (int64_t version = 1; version < 100; ++version) {
    cache.served(0, {.version = version});
  }
  CHECK(cache.version() == -1);
}
