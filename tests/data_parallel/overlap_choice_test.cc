#include "dtune/data_parallel/overlap_choice.h"

#include <doctest/doctest.h>

namespace dtune {
namespace {

void rounds(OverlapChoice& choice, int count, double reducing) {
  gang::RoundTimes times;
  times.forward = 0.4;
  times.backward = 0.6;
  times.exposed = reducing;
  for (int i = 0; i < count; ++i) choice.observe(times);
}

}  // namespace

TEST_CASE("a rank commits to a round early only where that hides much") {
  OverlapChoice cheap(true);
  OverlapChoice dear(true);
  rounds(cheap, OverlapChoice::kMeasured - 1, 0.02);
  rounds(dear, OverlapChoice::kMeasured - 1, 0.5);
  CHECK_FALSE(dear.overlaps());  // it measures
  rounds(cheap, 1, 0.5);         // once: a spike
  rounds(dear, 1, 0.02);
  CHECK_FALSE(cheap.overlaps());
  CHECK(dear.overlaps());
}

TEST_CASE("overlap is measured again and again") {
  OverlapChoice choice(true);
  rounds(choice, OverlapChoice::kMeasured, 0.5);
  rounds(choice, OverlapChoice::kPeriod - OverlapChoice::kMeasured - 1, 0.01);
  CHECK(choice.overlaps());  // little is left to see
  rounds(choice, 1, 0.01);
  CHECK_FALSE(choice.overlaps());  // measures
  rounds(choice, OverlapChoice::kMeasured, 0.02);
  CHECK_FALSE(choice.overlaps());
}

TEST_CASE("a recipe can forbid overlap") {
  OverlapChoice choice(false);
  rounds(choice, 3 * OverlapChoice::kPeriod, 5);
  CHECK_FALSE(choice.overlaps());
}

}  // namespace dtune
