#include "dtune/base/clock.h"

#include <doctest/doctest.h>

#include "dtune/base/clock_override.h"
#include "dtune/base/error.h"
#include "dtune/base/random.h"

using namespace dtune;  // NOLINT(google-build-using-namespace)

TEST_CASE("durations are read in every form that people write") {
  CHECK(parse_duration("90s") == from_seconds(90));
  CHECK(parse_duration("10m") == from_seconds(600));
  CHECK(parse_duration("1h30m") == from_seconds(5400));
  CHECK(parse_duration("2d") == from_seconds(172'800));
  CHECK(parse_duration("1.5h") == from_seconds(5400));
  CHECK(parse_duration("45") == from_seconds(45));
  CHECK(parse_duration("0.25") == from_seconds(0.25));
  CHECK(parse_duration("0s") == Duration::zero());
  CHECK(parse_duration("1h30m15s") == from_seconds(5415));
  CHECK(parse_duration("500ms") == from_seconds(0.5));
}

TEST_CASE("a text that is not a duration is refused with the accepted forms") {
  CHECK_THROWS_WITH_AS(
      parse_duration("soon"),
      "'soon' is not a duration (write 90s, 10m, 1h30m, 2d or a "
      "number of seconds)",
      Error);
  for (const char* text :
       {"", " ", "m", "10x", "-5s", "1h30", "inf", "nan", "1e400", "10mm",
        "1..5h", "999999999d", "+5s", "10m5", "0x10", "5s ", "10 m", "\xff"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_duration(text), Error);
  }
}

TEST_CASE("durations print in two units, rounded down") {
  CHECK(format_duration(from_seconds(0.9)) == "900ms");
  CHECK(format_duration(from_seconds(0.0009)) == "0s");
  CHECK(format_duration(from_seconds(-0.25)) == "-250ms");
  CHECK(format_duration(from_seconds(45)) == "45s");
  CHECK(format_duration(from_seconds(192)) == "3m12s");
  CHECK(format_duration(from_seconds(7500)) == "2h05m");
  CHECK(format_duration(from_seconds(90'000)) == "1d01h");
  CHECK(format_duration(from_seconds(-192)) == "-3m12s");
}

TEST_CASE("what is printed reads back to the printed precision") {
  Rng rng(3);
  for (int i = 0; i < 1000; ++i) {
    const Duration d = from_seconds(double(rng.below(400'000)));
    const std::string text = format_duration(d);
    CHECK(format_duration(parse_duration(text)) == text);
  }
}

TEST_CASE("a number of seconds too large for the clock is cut to the longest") {
  CHECK(from_seconds(1e300) == Duration::max());
  CHECK(from_seconds(-1e300) == Duration::min());
  CHECK(to_seconds(from_seconds(1.5)) == 1.5);
}

TEST_CASE("a manual clock moves only when it is advanced") {
  ManualClock clock;
  const MonoTime start = clock.now();
  const int64_t wall = clock.wall_ms();
  CHECK(clock.now() == start);
  clock.advance(from_seconds(2.5));
  CHECK(clock.now() - start == from_seconds(2.5));
  CHECK(clock.wall_ms() - wall == 2500);
}

TEST_CASE("the system clock does not go back") {
  const Clock& clock = system_clock();
  const MonoTime before = clock.now();
  CHECK(clock.now() >= before);
  CHECK(clock.wall_ms() > 1'700'000'000'000);
}

TEST_CASE("the system's clock is another one where a test says so") {
  const MonoTime before = system_clock().now();
  {
    ManualClock manual;
    manual.advance(from_seconds(5));
    const ClockOverride set(manual);
    CHECK(system_clock().now() == MonoTime(from_seconds(5)));
    CHECK(system_clock().wall_ms() == manual.wall_ms());
    manual.advance(from_seconds(1));
    CHECK(system_clock().now() == MonoTime(from_seconds(6)));
  }
  CHECK(system_clock().now() >= before);
}
