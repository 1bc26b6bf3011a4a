#include "dtune/cluster/step_limit.h"

#include <doctest/doctest.h>

namespace dtune {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration kNone{0};

bool ends(const StepLimit& limit, Duration taken, Duration silent) {
  return !limit.reason_to_end(1, taken, silent).empty();
}

bool names(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("short steps do not make a long one hang") {
  StepLimit limit(kNone);
  for (int i = 0; i < 50; ++i) limit.add(0.05);
  CHECK_FALSE(ends(limit, seconds(110), seconds(110)));  // nothing is heard
  CHECK(ends(limit, seconds(130), seconds(130)));
  CHECK_FALSE(ends(limit, minutes(9), seconds(1)));  // it computes
  CHECK(ends(limit, minutes(11), seconds(1)));
}

TEST_CASE("the limit grows with the spread of what was seen") {
  StepLimit even(kNone);
  StepLimit uneven(kNone);
  for (int i = 0; i < 5; ++i) even.add(100);
  for (int i = 0; i < 5; ++i) uneven.add(1);
  uneven.add(100);
  CHECK(ends(even, seconds(1100), seconds(1100)));
  CHECK_FALSE(ends(uneven, seconds(1100), seconds(1100)));
  CHECK(ends(uneven, seconds(10'100), seconds(10'100)));
}

TEST_CASE("a first step has an hour") {
  const StepLimit limit(kNone);
  CHECK_FALSE(ends(limit, minutes(59), minutes(59)));
  CHECK(ends(limit, minutes(61), minutes(61)));
}

TEST_CASE("a trial that was ended gets twice as long the next time") {
  StepLimit limit(kNone);
  limit.add(0.1);
  CHECK(ends(limit, minutes(3), minutes(3)));
  limit.ended(1);
  CHECK_FALSE(ends(limit, minutes(3), minutes(3)));
  CHECK(ends(limit, minutes(5), minutes(5)));
  CHECK(limit.reason_to_end(2, minutes(3), minutes(3)) != "");
}

TEST_CASE("what ends a step is the rule that did") {
  StepLimit measured(kNone);
  measured.add(2);
  const std::string hung = measured.reason_to_end(1, minutes(4), minutes(3));
  CHECK(names(hung, "no step was finished for 4m"));
  CHECK(names(hung, "nothing was computed or written for 3m"));
  CHECK(names(hung, "automatic limit"));
  const std::string endless =
      measured.reason_to_end(1, minutes(11), seconds(0));
  CHECK(names(endless, "the longest step took 2s"));
  CHECK_FALSE(names(endless, "computed"));
  const StepLimit said(seconds(5));
  CHECK_FALSE(ends(said, seconds(4), seconds(4)));
  CHECK(said.reason_to_end(1, seconds(6), seconds(0)) ==
        "no step was finished for 6s (limits.step_time)");
}

}  // namespace dtune
