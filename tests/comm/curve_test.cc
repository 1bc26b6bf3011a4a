#include "dtune/comm/curve.h"

#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/comm/zap.h"

using namespace dtune;  // NOLINT: a test

TEST_CASE("a fresh pair of keys fits and differs from the next") {
  const CurveKeys keys = generate_curve_keys();
  CHECK(is_curve_key(keys.public_key));
  CHECK(is_curve_key(keys.secret_key));
  CHECK(public_key_of(keys.secret_key) == keys.public_key);
  CHECK(generate_curve_keys().secret_key != keys.secret_key);
}

TEST_CASE("what is no key is refused as one") {
  CHECK(!is_curve_key(""));
  CHECK(!is_curve_key(std::string(39, 'a')));
  CHECK(!is_curve_key(std::string(40, ' ')));
  CHECK(!is_curve_key(std::string(39, 'a') + '\0'));
  CHECK(!is_curve_key(std::string(40, '#')));  // above 2^32 in every group
  CHECK_THROWS_AS(public_key_of("secret"), Error);
}

TEST_CASE("a list of allowed keys holds what was added until it is removed") {
  AllowList list;
  const std::string key = generate_curve_keys().public_key;
  CHECK(!list.contains(key));
  CHECK(list.add(key));
  CHECK(!list.add(key));
  CHECK(list.contains(key));
  CHECK(list.size() == 1);
  CHECK(list.remove(key));
  CHECK(!list.remove(key));
  CHECK(!list.contains(key));
  CHECK_THROWS_AS(list.add("no key"), Error);
}

TEST_CASE("a list of allowed keys remembers few of many refusals") {
  AllowList list;
  for (size_t i = 0; i < 3 * AllowList::kMaxRefusals; ++i) {
    list.refused({"10.0.0." + std::to_string(i), ""});
  }
  const auto taken = list.take_refusals();
  REQUIRE(taken.size() == AllowList::kMaxRefusals);
  CHECK(taken.back().address == "10.0.0.299");
  CHECK(list.take_refusals().empty());
}
