// Groups of a gang's data plane: three members as threads, real sockets.
#include "dtune/distributed/gang_link.h"

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "eventually.h"
#include <doctest/doctest.h>

#include "dtune/comm/socket.h"
#include "dtune/gang/server.h"

namespace dtune {
namespace {

constexpr int kMembers = 3;
constexpr Duration kLinkPatience = std::chrono::seconds(90);

// What each member sees: sums of its group in every round, and how many groups
// it had at the end.
struct GroupsSeen {
  std::vector<float> sums;
  size_t most = 0;
  size_t last = 0;
};

// Of a round: another pair now and then, mostly all three.
std::vector<int> participants_in(int64_t round) {
  static const std::vector<int> pairs[] = {{0, 1}, {0, 2}, {1, 2}};
  if (round % 10 < 3) return pairs[round % 10];
  return {0, 1, 2};
}

GroupsSeen reduce_rounds(const RankInfo& rank, int64_t rounds,
                         std::vector<int> (*who_in)(int64_t)) {
  GangLink link(rank);
  const std::atomic<bool> stop = false;
  gang::Regroup order;
  order.incarnation = 1;
  order.members = {0, 1, 2};
  order.patience = kLinkPatience;
  link.regroup(order, stop);
  GroupsSeen seen;
  for (int64_t round = 1; round <= rounds; ++round) {
    const std::vector<int> who = who_in(round);
    if (std::find(who.begin(), who.end(), rank.member) == who.end()) continue;
    std::array<float, 1> value = {static_cast<float>(rank.member + 1)};
    link.group(who, round, kLinkPatience).all_reduce(value, kLinkPatience);
    seen.sums.push_back(value[0]);
    seen.most = std::max(seen.most, link.groups());
    seen.last = link.groups();
  }
  return seen;
}

std::array<GroupsSeen, kMembers> run_members(
    int64_t rounds, std::vector<int> (*who_in)(int64_t)) {
  SocketDirectory sockets;
  GangServer server({.local = sockets.endpoint("g")}, {});
  GangOptions options;
  options.gang = "7.1";
  options.parallel.mode = ParallelMode::data;
  options.parallel.ranks = kMembers;
  server.open(options);
  std::array<GroupsSeen, kMembers> seen;
  std::vector<std::thread> threads;
  for (int member = 0; member < kMembers; ++member) {
    threads.emplace_back([&, member] {
      RankInfo rank;
      rank.gang = "7.1";
      rank.member = member;
      rank.members = kMembers;
      rank.endpoint = server.local_endpoint();
      seen[static_cast<size_t>(member)] = reduce_rounds(rank, rounds, who_in);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return seen;
}

}  // namespace

TEST_CASE("any order but a go makes void what a member computes") {
  SocketDirectory sockets;
  GangServer server({.local = sockets.endpoint("g")}, {});
  GangOptions options;
  options.gang = "7.1";
  options.parallel.mode = ParallelMode::data;
  options.parallel.ranks = 1;
  server.open(options);
  RankInfo rank;
  rank.gang = "7.1";
  rank.members = 1;
  rank.endpoint = server.local_endpoint();
  GangLink link(rank);
  const std::atomic<bool> stop = false;
  CHECK_FALSE(link.is_void());
  link.client().begin({.end = 64, .epoch_samples = 64, .batch_size = 8});
  REQUIRE(eventually([&] { return link.is_void(); }));
  CHECK(link.is_void());  // until it is taken
  const auto order = std::get<gang::Regroup>(link.wait(stop));
  CHECK_FALSE(link.is_void());
  link.client().ready({.round = order.work.round});
  REQUIRE(eventually([&] { return link.has_order(); }));
  CHECK_FALSE(link.is_void());
  link.wait(stop);
  server.close("7.1", "enough");
  CHECK(eventually([&] { return link.is_void(); }));
}

TEST_CASE("groups of some members are kept while they are used") {
  const auto seen = run_members(30, participants_in);
  for (int member = 0; member < kMembers; ++member) {
    CAPTURE(member);
    const GroupsSeen& own = seen[static_cast<size_t>(member)];
    CHECK(own.most == 2);  // the two pairs that it is in
    CHECK(std::count(own.sums.begin(), own.sums.end(), 6.0F) == 21);
  }
}

TEST_CASE("groups that are not used any more are left, by all alike") {
  // Member 0 and 1, long after that member 0 and 2, then the first again.
  const auto seen = run_members(120, [](int64_t round) -> std::vector<int> {
    if (round == 1 || round == 100) return {0, 1};
    if (round == 60 || round == 110) return {0, 2};
    return {1, 2};
  });
  CHECK(seen[0].most == 2);  // at the end, within 32 rounds
  CHECK(seen[0].sums == std::vector<float>{3, 4, 3, 4});
  CHECK(seen[1].last == 2);
  CHECK(seen[2].last == 2);
}

}  // namespace dtune
