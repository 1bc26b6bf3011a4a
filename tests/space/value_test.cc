#include "dtune/space/value.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include <doctest/doctest.h>

#include "dtune/base/random.h"

using namespace dtune;  // NOLINT(google-build-using-namespace)

TEST_CASE("values print as YAML would read them") {
  CHECK(to_string(Value(true)) == "true");
  CHECK(to_string(Value(false)) == "false");
  CHECK(to_string(Value(int64_t{-32})) == "-32");
  CHECK(to_string(Value(0.1)) == "0.1");
  CHECK(to_string(Value(1e-5)) == "1e-05");
  CHECK(to_string(Value(std::string("adam"))) == "adam");
}

TEST_CASE("a whole real keeps its point, so that it stays a real") {
  CHECK(to_string(Value(1.0)) == "1.0");
  CHECK(to_string(Value(-3.0)) == "-3.0");
  CHECK(to_string(Value(-0.0)) == "-0.0");
  CHECK(to_string(Value(1e22)) == "1e+22");
}

TEST_CASE("every double reads back as itself") {
  Rng rng(1);
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t bits = rng();
    double value = 0;
    static_assert(sizeof value == sizeof bits);
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) continue;
    const std::string text = to_string(Value(value));
    double back = 0;
    std::from_chars(text.data(), text.data() + text.size(), back);
    REQUIRE(back == value);
  }
}

TEST_CASE("booleans, integers and reals are numbers, words are not") {
  CHECK(as_number(Value(true)) == 1);
  CHECK(as_number(Value(int64_t{7})) == 7);
  CHECK(as_number(Value(0.5)) == 0.5);
  CHECK_FALSE(as_number(Value(std::string("7"))));
}

TEST_CASE("a point is described with three digits") {
  const Point point = {{"lr", 0.031234},
                       {"l2", 1.2345e-5},
                       {"batch", int64_t{1024}},
                       {"optimizer", Value("adam")}};
  CHECK(describe(point) == "batch=1024 l2=1.23e-05 lr=0.0312 optimizer=adam");
  CHECK(describe({}).empty());
}
