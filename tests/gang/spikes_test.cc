#include "dtune/gang/spikes.h"

#include <doctest/doctest.h>

namespace dtune {
namespace {

using gang::Spikes;
using gang::Standstill;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Of spikes that lasted for so many milliseconds, one every six seconds.
Spikes spikes_of(std::initializer_list<int> lengths) {
  Spikes spikes;
  MonoTime end{seconds(1)};
  for (const int length : lengths) {
    spikes.add(milliseconds(length), end);
    end += seconds(6);
  }
  return spikes;
}

}  // namespace

TEST_CASE("what is left of a spike is forecast from those before") {
  CHECK(Spikes().rest(milliseconds(200)) == milliseconds(200));
  const Spikes spikes = spikes_of({1000, 2000, 100});
  CHECK(spikes.rest(milliseconds(200)) == milliseconds(1300));
  CHECK(spikes.rest(milliseconds(1500)) == milliseconds(500));
  CHECK(spikes.rest(milliseconds(3000)) == milliseconds(3000));
}

TEST_CASE("old spikes are forgotten") {
  Spikes spikes = spikes_of({1000});
  for (size_t i = 0; i < Spikes::kWindow; ++i) {
    spikes.add(milliseconds(300), MonoTime{seconds(10)});
  }
  CHECK(spikes.rest(milliseconds(200)) == milliseconds(100));
}

// Three ranks are ready after half a second.
TEST_CASE("a gang goes on without a rank where waiting costs more") {
  Standstill at;
  at.waiting = 3;
  at.usual = milliseconds(500);
  at.worked = milliseconds(250);
  at.silent = milliseconds(250);
  // 3 (.75 + .25) s to wait; .25 s lost, and .33 s to come in.
  CHECK(spikes_of({1000}).worth_going_on(at));
  // 3 (.05 + .1) s; .4 s lost, and .62 s: the spike is over soon.
  at.worked = milliseconds(400);
  at.silent = milliseconds(200);
  CHECK_FALSE(spikes_of({250}).worth_going_on(at));
  // One rank that waits loses less.
  at.worked = milliseconds(250);
  at.silent = milliseconds(250);
  at.waiting = 1;
  CHECK_FALSE(spikes_of({400}).worth_going_on(at));
  // Nothing of its work would be lost.
  at.worked = milliseconds(0);
  at.silent = milliseconds(500);
  CHECK(spikes_of({1000}).worth_going_on(at));
}

TEST_CASE("the share of the time that spikes take falls when they end") {
  CHECK(Spikes().share(MonoTime{seconds(1)}) == 0);
  const Spikes spikes = spikes_of({1000, 1000});
  CHECK(spikes.share(MonoTime{seconds(10)}) == doctest::Approx(0.2));
  CHECK(spikes.share(MonoTime{seconds(100)}) == doctest::Approx(0.02));
}

}  // namespace dtune
