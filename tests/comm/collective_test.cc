// What every engine promises, run over the groups of threads and of Gloo.
#include "dtune/comm/collective.h"

#include <cstring>
#include <random>

#include "comm/groups.h"
#include "comm/threads.h"
#include <doctest/doctest.h>

using namespace dtune;  // NOLINT: a test

namespace {

constexpr Duration kCollectivePatience = std::chrono::seconds(60);
constexpr Duration kShort = std::chrono::milliseconds(50);

std::span<const std::byte> bytes_of(const std::vector<float>& data) {
  return std::as_bytes(std::span(data));
}
std::span<std::byte> bytes_of(std::vector<float>& data) {
  return std::as_writable_bytes(std::span(data));
}

std::vector<float> random_floats(size_t count, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// The ranks that an operation says to be missing; fails where it succeeds.
std::vector<int> missing_in(const std::function<void()>& run) {
  try {
    run();
  } catch (const RanksMissing& e) {
    CHECK(e.kind() == ErrorKind::comm);
    return e.ranks();
  }
  throw std::logic_error("nothing was missing");
}

}  // namespace

TEST_CASE_TEMPLATE("sums have the same bits on all ranks", Maker, LocalGroups,
                   GlooGroups) {
  constexpr int kRanks = 4;
  const Maker maker(kRanks);
  // Sizes that do and do not divide by the ranks; none; less than one each.
  for (const size_t count : {0, 1, 3, 4, 1000, 100'003}) {
    std::vector<std::vector<float>> results(kRanks);
    std::vector<double> expected(count);
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto values = random_floats(count, rank);
      for (size_t i = 0; i < count; ++i) expected[i] += values[i];
    }
    on_ranks(kRanks, [&](int rank) {
      auto data = random_floats(count, rank);
      maker.group(rank).all_reduce(data, kCollectivePatience);
      results[rank] = data;
    });
    for (size_t i = 0; i < count; ++i) {
      REQUIRE(results[0][i] == doctest::Approx(expected[i]).epsilon(1e-4));
    }
    for (int rank = 1; rank < kRanks && count > 0; ++rank) {
      CHECK(std::memcmp(results[rank].data(), results[0].data(),
                        count * sizeof(float)) == 0);
    }
  }
}

TEST_CASE_TEMPLATE("a broadcast gives all ranks what the root has", Maker,
                   LocalGroups, GlooGroups) {
  const Maker maker(3);
  on_ranks(3, [&](int rank) {
    for (const int root : {0, 2}) {
      std::vector<float> data(1001, static_cast<float>(rank));
      maker.group(rank).broadcast(data, root, kCollectivePatience);
      CHECK(data == std::vector<float>(1001, static_cast<float>(root)));
    }
    maker.group(rank).barrier(kCollectivePatience);
  });
}

TEST_CASE_TEMPLATE("a group of one does not wait", Maker, SoloGroup,
                   LocalGroups, GlooGroups) {
  const Maker maker(1);
  Collective& group = maker.group(0);
  std::vector<float> data = {1, 2, 3};
  group.all_reduce(data, kCollectivePatience);
  group.broadcast(data, 0, kCollectivePatience);
  group.barrier(kCollectivePatience);
  CHECK(data == std::vector<float>{1, 2, 3});
  CHECK(group.rank() == 0);
  CHECK(group.size() == 1);
}

TEST_CASE_TEMPLATE("transfers are matched by peer and tag and then by order",
                   Maker, LocalGroups, GlooGroups) {
  const Maker maker(3);
  on_ranks(3, [&](int rank) {
    Collective& group = maker.group(rank);
    if (rank > 0) {
      const std::vector<float> a(5, static_cast<float>(rank));
      const std::vector<float> b(5, static_cast<float>(10 * rank));
      const std::vector<float> c(70'000, static_cast<float>(100 * rank));
      auto first = group.start_send(0, 7, bytes_of(a));
      auto second = group.start_send(0, 7, bytes_of(b));
      auto third = group.start_send(0, 8, bytes_of(c));
      third->wait(kCollectivePatience);
      first->wait(kCollectivePatience);
      second->wait(kCollectivePatience);
      return;
    }
    for (const int from : {2, 1}) {
      std::vector<float> a(5);
      std::vector<float> b(5);
      std::vector<float> c(70'000);
      auto third = group.start_receive(from, 8, bytes_of(c));
      auto first = group.start_receive(from, 7, bytes_of(a));
      auto second = group.start_receive(from, 7, bytes_of(b));
      first->wait(kCollectivePatience);
      second->wait(kCollectivePatience);
      third->wait(kCollectivePatience);
      CHECK(a == std::vector<float>(5, static_cast<float>(from)));
      CHECK(b == std::vector<float>(5, static_cast<float>(10 * from)));
      CHECK(c == std::vector<float>(70'000, static_cast<float>(100 * from)));
    }
  });
}

TEST_CASE_TEMPLATE("an empty message is a message", Maker, LocalGroups,
                   GlooGroups) {
  const Maker maker(2);
  on_ranks(2, [&](int rank) {
    if (rank == 0) {
      maker.group(0).send(1, 1, {}, kCollectivePatience);
    } else {
      maker.group(1).receive(0, 1, {}, kCollectivePatience);
    }
  });
}

TEST_CASE_TEMPLATE("transfers go on beside a sum", Maker, LocalGroups,
                   GlooGroups) {
  const Maker maker(2);
  on_ranks(2, [&](int rank) {
    Collective& group = maker.group(rank);
    const std::vector<float> mine(50'000, static_cast<float>(rank));
    std::vector<float> others(50'000);
    auto receiving = group.start_receive(1 - rank, 3, bytes_of(others));
    auto sending = group.start_send(1 - rank, 3, bytes_of(mine));
    std::vector<float> sum(1000, 1.0F);
    group.all_reduce(sum, kCollectivePatience);
    CHECK(sum == std::vector<float>(1000, 2.0F));
    sending->wait(kCollectivePatience);
    receiving->wait(kCollectivePatience);
    CHECK(others == std::vector<float>(50'000, static_cast<float>(1 - rank)));
  });
}

TEST_CASE_TEMPLATE("a sum that a rank does not come to ends in time", Maker,
                   LocalGroups, GlooGroups) {
  const Maker maker(2);
  std::vector<float> data(100);
  CHECK(missing_in([&] { maker.group(0).all_reduce(data, kShort); }) ==
        std::vector<int>{1});
  // The group is of no use any more, at once.
  CHECK_THROWS_AS(maker.group(0).barrier(kCollectivePatience), RanksMissing);
  CHECK_THROWS_AS(
      maker.group(0).send(1, 0, bytes_of(data), kCollectivePatience),
      RanksMissing);
}

TEST_CASE_TEMPLATE("a transfer that the peer does not come to ends in time",
                   Maker, LocalGroups, GlooGroups) {
  const Maker maker(3);
  std::vector<float> data(100);
  CHECK(missing_in([&] {
          maker.group(0).receive(2, 5, bytes_of(data), kShort);
        }) == std::vector<int>{2});
}

TEST_CASE_TEMPLATE("a rank that waits for one that leaves fails at once", Maker,
                   LocalGroups, GlooGroups) {
  Maker maker(3);
  on_ranks(3, [&](int rank) {
    if (rank == 1) return maker.leave(1);
    std::vector<float> data(100);
    try {
      maker.group(rank).all_reduce(data, kCollectivePatience);
      FAIL("the sum needs rank 1");
    } catch (const RanksMissing&) {  // not all engines know who it was
      maker.leave(rank);
    }
  });
}

TEST_CASE("errors between threads name ranks that left or did not come") {
  auto groups = make_local_groups(3);
  std::vector<float> data(10);
  groups[2].reset();
  try {
    groups[0]->all_reduce(data, kCollectivePatience);
    FAIL("rank 2 has left");
  } catch (const RanksMissing& e) {
    CHECK(e.ranks() == std::vector<int>{2});
    CHECK(std::string(e.what()) == "group of threads: rank 2 left the group");
  }
  groups = make_local_groups(4);
  CHECK(missing_in([&] { groups[1]->barrier(kShort); }) ==
        std::vector<int>{0, 2, 3});
}

TEST_CASE("threads that run different operations get an error") {
  auto groups = make_local_groups(2);
  std::vector<std::string> texts(2);
  on_ranks(2, [&](int rank) {
    std::vector<float> data(rank == 0 ? 5 : 6);
    try {
      groups[rank]->all_reduce(data, kCollectivePatience);
    } catch (const RanksMissing& e) {
      texts[rank] = e.what();
    }
  });
  CHECK(texts[0] == "group of threads: the ranks run different operations");
  CHECK(texts[1] == texts[0]);
}

TEST_CASE("a transfer that is given up does not touch its memory later") {
  auto groups = make_local_groups(2);
  std::vector<float> data(10, 1.0F);
  groups[0]->start_receive(1, 4, bytes_of(data)).reset();
  const std::vector<float> other(10, 2.0F);
  CHECK_THROWS_AS(groups[1]->send(0, 4, bytes_of(other), kCollectivePatience),
                  RanksMissing);
  CHECK(data == std::vector<float>(10, 1.0F));
}
