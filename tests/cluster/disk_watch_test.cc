#include "dtune/cluster/disk_watch.h"

#include <doctest/doctest.h>

#include "dtune/base/file.h"

namespace dtune {

using std::chrono::minutes;
using std::chrono::seconds;

TEST_CASE("a full disk is reported once, and so is its end") {
  ManualClock clock;
  DiskWatch watch("", minutes(10));
  CHECK_FALSE(watch.written(clock.now()));
  CHECK(watch.full(clock.now()));
  CHECK_FALSE(watch.full(clock.now()));
  CHECK(watch.is_full());
  CHECK(watch.written(clock.now()));
  CHECK_FALSE(watch.is_full());
  // Room for one checkpoint and not for the next is the same trouble.
  clock.advance(seconds(5));
  CHECK_FALSE(watch.full(clock.now()));
  CHECK_FALSE(watch.written(clock.now()));
  clock.advance(minutes(1));
  CHECK(watch.full(clock.now()));
}

TEST_CASE("a full disk is waited for as long as the recipe says") {
  ManualClock clock;
  DiskWatch watch("", minutes(10));
  watch.full(clock.now());
  clock.advance(minutes(9));
  CHECK_FALSE(watch.given_up(clock.now()));
  watch.written(clock.now());
  clock.advance(seconds(2));
  watch.full(clock.now());
  clock.advance(minutes(2));
  CHECK(watch.given_up(clock.now()));  // it was never really empty
}

TEST_CASE("no step begins until there is room for its checkpoint") {
  const TemporaryDirectory folder;
  ManualClock clock;
  DiskWatch watch(folder.path(), minutes(10));
  CHECK_FALSE(watch.holds(clock.now()));
  watch.full(clock.now());
  CHECK(watch.holds(clock.now()));
  clock.advance(seconds(3));
  CHECK_FALSE(watch.holds(clock.now()));
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace dtune
