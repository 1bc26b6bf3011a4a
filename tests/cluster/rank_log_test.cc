#include "dtune/cluster/rank_log.h"

#include <doctest/doctest.h>

namespace dtune {

TEST_CASE("a million rounds leave some sixty records of each rank") {
  Trial trial;
  trial.id = 3;
  trial.attempt = 1;
  GangStatus gang;
  gang.members.resize(2);
  gang.members[1].node = "box";
  gang.members[1].times.samples = 7;
  RankLog log;
  CHECK(log.sample(trial, gang, 5).empty());  // no round yet
  size_t records = 0;
  for (gang.round = 1; gang.round <= 1'000'000; ++gang.round) {
    records += log.sample(trial, gang, 5).size();
  }
  CHECK(records > 2 * 30);
  CHECK(records < 2 * 70);
  trial.attempt = 2;  // rounds count anew
  gang.round = 1;
  const std::vector<RankRound> again = log.sample(trial, gang, 6);
  REQUIRE(again.size() == 2);
  CHECK(again[1].rank == 1);
  CHECK(again[1].attempt == 2);
  CHECK(again[1].node == "box");
  CHECK(again[1].samples == 7);
  CHECK(again[1].wall_ms == 6);
  CHECK(log.sample(trial, gang, 7).empty());  // the same round
}

}  // namespace dtune
