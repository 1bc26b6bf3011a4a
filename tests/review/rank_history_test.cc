#include "dtune/review/rank_history.h"

#include <doctest/doctest.h>

namespace dtune {
namespace {

RankRound at(int64_t round, int rank, int64_t samples, double compute,
             double wait) {
  return {.trial = 4,
          .attempt = 1,
          .round = round,
          .rank = rank,
          .node = rank == 0 ? "fast" : "slow",
          .samples = samples,
          .compute_seconds = compute,
          .wait_seconds = wait,
          .share = 0.5};
}

}  // namespace

TEST_CASE("what ranks did is derived round by round from the recorded sums") {
  const std::vector<RankHistory> histories = rank_histories(
      {at(10, 0, 100, 1, 1), at(10, 1, 100, 2, 0), at(20, 0, 300, 3, 2)});
  REQUIRE(histories.size() == 1);
  const RankHistory& history = histories[0];
  CHECK(history.trial == 4);
  CHECK(history.rounds == std::vector<int64_t>{10, 20});
  CHECK(history.nodes == std::vector<std::string>{"fast", "slow"});
  CHECK(history.cells[0][0].speed == 100);
  CHECK(history.cells[0][0].wait == 0.5);
  CHECK(history.cells[0][1].speed == 100);  // 200 in 2 s
  CHECK(history.cells[0][1].wait == doctest::Approx(1.0 / 3));
  CHECK(history.cells[1][0].speed == 50);
  CHECK_FALSE(history.cells[1][1].present);
}

TEST_CASE("a rank is slow by its own speed, not by the rounds it waits for") {
  const auto slow = slowest_rank(rank_histories(
      {at(10, 0, 100, 1, 1), at(10, 1, 50, 1, 0), at(10, 2, 98, 1, 1)}));
  REQUIRE(slow);
  CHECK(slow->trial == 4);
  CHECK(slow->rank == 1);
  CHECK(slow->node == "slow");
  CHECK(slow->part == doctest::Approx(50.0 / 98));
  CHECK_FALSE(slowest_rank(
      rank_histories({at(10, 0, 100, 1, 1), at(10, 1, 90, 1, 0)})));
  CHECK_FALSE(slowest_rank(rank_histories({at(10, 0, 100, 1, 1)})));
}

}  // namespace dtune
