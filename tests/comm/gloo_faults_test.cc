// Groups of real processes, of which some die or stop.
#include <array>
#include <atomic>
#include <numeric>
#include <thread>

#include "comm/groups.h"
#include "store/child.h"
#include <doctest/doctest.h>

#include "dtune/base/file.h"
#include "dtune/comm/folder_store.h"

using namespace dtune;  // NOLINT: a test
using dtune::test::Child;
using dtune::test::Pipe;

namespace {

constexpr Duration kGlooPatience = std::chrono::seconds(60);
constexpr size_t kCount = 200'000;

GroupOptions group_options(int rank, int size, const std::string& name) {
  return {.rank = rank,
          .size = size,
          .name = name,
          .address = "127.0.0.1",
          .connect_timeout = kGlooPatience};
}

// What one rank saw, as a number: the ranks that were reported missing, a bit
// each; -1 where nothing failed.
struct Fault {
  int64_t missing = -1;
  std::string text;
  double seconds_to_leave = 0;  // to destroy the group
};

// Sums until an operation fails. `before(i)` is called before the sum i.
Fault sum_until_fault(std::unique_ptr<Collective> group, Duration timeout,
                      const std::function<void(int)>& before) {
  std::vector<float> data(kCount, 1.0F);
  Fault fault;
  try {
    for (int i = 0; i < 1000; ++i) {
      before(i);
      std::fill(data.begin(), data.end(), 1.0F);
      group->all_reduce(data, timeout);
    }
  } catch (const RanksMissing& e) {
    fault.missing = 0;
    for (const int rank : e.ranks()) fault.missing |= int64_t{1} << rank;
    fault.text = e.what();
  }
  const MonoTime start = system_clock().now();
  group.reset();
  fault.seconds_to_leave = to_seconds(system_clock().now() - start);
  return fault;
}

}  // namespace

TEST_CASE("ranks name the one that was killed and go on without it") {
  constexpr int kRanks = 4;
  constexpr int kVictim = 2;
  const TemporaryDirectory folder;
  Pipe results;
  std::vector<std::unique_ptr<Child>> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.push_back(std::make_unique<Child>([&, rank] {
      FolderStore store(folder.path());
      auto group = make_gloo_group(group_options(rank, kRanks, "all"), store);
      const Fault fault =
          sum_until_fault(std::move(group), kGlooPatience, [&](int i) {
            if (rank == kVictim && i == 5) ::raise(SIGKILL);
          });
      results.send(fault.missing);
      results.send(fault.text == "group 'all': rank 2 is gone" ? 1 : 0);
      results.send(fault.seconds_to_leave < 30 ? 1 : 0);
      const int place = rank < kVictim ? rank : rank - 1;
      auto rest =
          make_gloo_group(group_options(place, kRanks - 1, "rest"), store);
      std::vector<float> data(kCount, 1.0F);
      rest->all_reduce(data, kGlooPatience);
      results.send(static_cast<int64_t>(data.back()));
    }));
  }
  results.close_writing();
  std::map<int64_t, int> counts;
  for (int64_t number = 0; results.receive(number);) ++counts[number];
  // Three survivors: missing = {2}, text, destructor; then the sum of three.
  CHECK(counts == std::map<int64_t, int>{{1 << kVictim, 3}, {1, 6}, {3, 3}});
}

TEST_CASE(
    "a rank that stops is named in time and gets an error when it goes on") {
  constexpr int kRanks = 3;
  constexpr int kVictim = 1;
  const TemporaryDirectory folder;
  Pipe results;
  std::vector<std::unique_ptr<Child>> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.push_back(std::make_unique<Child>([&, rank] {
      FolderStore store(folder.path());
      auto group = make_gloo_group(group_options(rank, kRanks, "all"), store);
      const Duration patience =
          rank == kVictim ? kGlooPatience : Duration(std::chrono::seconds(5));
      const Fault fault =
          sum_until_fault(std::move(group), patience, [&](int i) {
            if (rank == kVictim && i == 5) ::raise(SIGSTOP);
          });
      results.send(fault.missing);
      results.send(fault.text == "group 'all': rank 1 does not answer" ? 100
                                                                       : 101);
      results.send(fault.seconds_to_leave < 30 ? 200 : 201);
    }));
  }
  results.close_writing();
  std::map<int64_t, int> counts;
  int64_t number = 0;
  for (int i = 0; i < 6 && results.receive(number); ++i) ++counts[number];
  CHECK(counts ==
        std::map<int64_t, int>{{1 << kVictim, 2}, {100, 2}, {200, 2}});
  ::kill(ranks[kVictim]->pid(), SIGCONT);
  REQUIRE(results.receive(number));
  CHECK(number >= 0);  // it failed, too
}

namespace {

// Ranks 0 and 2 find each other there, however late one of them comes.
class MetStore final : public RendezvousStore {
 public:
  void set(const std::string& key, const std::string& value) override {
    store_.set(key, value);
  }
  std::string get(const std::string& key, Duration timeout) override {
    for (const char* one : {"g/gloo/0", "g/gloo/2"}) {
      store_.get(one, kGlooPatience);
    }
    return store_.get(key, timeout);
  }

 private:
  ThreadStore store_;
};

}  // namespace

TEST_CASE("ranks that have not come to a group are named") {
  MetStore store;
  on_ranks(2, [&](int rank) {
    GroupOptions options = group_options(rank == 0 ? 0 : 2, 4, "g");
    options.connect_timeout = std::chrono::milliseconds(300);
    try {
      make_gloo_group(options, store);
      FAIL("ranks 1 and 3 are missing");
    } catch (const RanksMissing& e) {
      CHECK(e.ranks() == std::vector<int>{1, 3});
      CHECK(std::string(e.what()) ==
            "group 'g': ranks 1 and 3 did not come within 0.3 s");
    }
  });
}

TEST_CASE("a rank that came and went before the others connect is named") {
  ThreadStore store;
  store.set("g/gloo/1", "nonsense");
  GroupOptions options = group_options(0, 2, "g");
  try {
    make_gloo_group(options, store);
    FAIL("rank 1 is not there");
  } catch (const RanksMissing& e) {
    CHECK(e.ranks() == std::vector<int>{1});
    CHECK(std::string(e.what()).starts_with(
        "group 'g': rank 1 cannot be reached: "));
  }
}

TEST_CASE("an address of another machine is an error that names it") {
  ThreadStore store;
  GroupOptions options = group_options(0, 2, "g");
  options.address = "192.0.2.1";
  CHECK_THROWS_WITH_AS(
      make_gloo_group(options, store),
      doctest::Contains("group 'g': cannot use the address 192.0.2.1: "),
      Error);
}

TEST_CASE(
    "a rank that computes too long is not reported as one that does not "
    "answer") {
  const GlooGroups groups(2);
  std::vector<float> data(100);
  try {
    groups.group(0).all_reduce(data, std::chrono::milliseconds(50));
    FAIL("rank 1 did not come");
  } catch (const RanksMissing& e) {
    CHECK(std::string(e.what()) ==
          "group 'g': rank 1 did not come within 0.05 s");
  }
  CHECK_THROWS_WITH_AS(groups.group(1).barrier(kGlooPatience),
                       "group 'g': rank 0 gave up", RanksMissing);
}

TEST_CASE(
    "what waits for a rank that stands still is given up when it is said") {
  const GlooGroups groups(3);
  // Without an operation nothing happens.
  groups.group(0).give_up_on(1);
  std::vector<float> sums(3);
  on_ranks(3, [&](int rank) {
    std::vector<float> data(100, 1.0F);
    groups.group(rank).all_reduce(data, kGlooPatience);
    sums[static_cast<size_t>(rank)] = data.back();
  });
  CHECK(sums == std::vector<float>{3, 3, 3});
  // Nor where it needs another rank.
  const std::array<std::byte, 4> sent{};
  std::array<std::byte, 4> received{};
  const auto transfer = groups.group(0).start_receive(2, 7, received);
  std::atomic<bool> over = false;
  std::thread others([&] {
    for (int i = 0; i < 20; ++i) groups.group(0).give_up_on(1);
    groups.group(2).send(0, 7, sent, kGlooPatience);
  });
  CHECK_NOTHROW(transfer->wait(kGlooPatience));
  others.join();
  std::thread server([&] {
    while (!over) {
      for (const int rank : {0, 2}) groups.group(rank).give_up_on(1);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  std::vector<std::string> texts(3);
  on_ranks(3, [&](int rank) {
    if (rank == 1) return;
    std::vector<float> data(kCount, 1.0F);
    try {
      groups.group(rank).all_reduce(data, kGlooPatience);
    } catch (const RanksMissing& e) {
      texts[static_cast<size_t>(rank)] = e.what();
    }
  });
  over = true;
  server.join();
  for (const size_t rank : {0, 2}) {
    CHECK(texts[rank] == "group 'g': rank 1 does not answer");
  }
}
