#include "dtune/base/turn_clock.h"

#include <doctest/doctest.h>

using namespace dtune;  // NOLINT(google-build-using-namespace)

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("a turn that takes its time counts as it is") {
  ManualClock machine;
  TurnClock turns(seconds(1), machine);
  const MonoTime begin = turns.now();
  for (int turn = 0; turn < 10; ++turn) {
    machine.advance(milliseconds(900));
    CHECK(turns.now() - begin == milliseconds(900) * (turn + 1));
    turns.turn();
  }
  CHECK(turns.now() - begin == seconds(9));
  CHECK(turns.wall_ms() == machine.wall_ms());
}

TEST_CASE("a loop that was held up counts the longest turn only") {
  ManualClock machine;
  TurnClock turns(seconds(1), machine);
  const MonoTime begin = turns.now();
  machine.advance(seconds(60));
  CHECK(turns.now() - begin == seconds(1));  // also before it notices
  turns.turn();
  CHECK(turns.now() - begin == seconds(1));
  machine.advance(milliseconds(300));
  CHECK(turns.now() - begin == milliseconds(1300));
  machine.advance(seconds(5));
  turns.turn();
  turns.turn();
  CHECK(turns.now() - begin == seconds(2));
}
