#include "dtune/store/codec.h"

#include <cmath>

#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/store/final_result.h"

namespace dtune {

TEST_CASE("metrics and points are compact JSON that people can read") {
  CHECK(encode_metrics({{"val_accuracy", 0.91}, {"val_loss", 2}}) ==
        R"({"val_accuracy":0.91,"val_loss":2.0})");
  CHECK(encode_metrics({{"x", std::stod("nan")}, {"y", -HUGE_VAL}}) ==
        R"({"x":"nan","y":"-inf"})");
  CHECK(encode_point({{"a", true},
                      {"b", int64_t{2}},
                      {"c", 2.0},
                      {"d", std::string("nan")},
                      {"e", HUGE_VAL}}) ==
        R"({"a":true,"b":2,"c":2.0,"d":"nan","e":{"real":"inf"}})");
}

TEST_CASE("a point keeps the types of its values") {
  const Point point = {{"a", false},     {"b", int64_t{-9007199254740993}},
                       {"c", -0.0},      {"d", std::string("0.5")},
                       {"e", -HUGE_VAL}, {"f", 5e-324}};
  CHECK(decode_point(encode_point(point)) == point);
}

TEST_CASE("texts that dtune has not written are refused") {
  for (const char* text : {"", "{", "[]", "3", R"({"a":[1]})", R"({"a":{}})"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(decode_point(text), Error);
    CHECK_THROWS_AS(decode_metrics(text), Error);
  }
  CHECK_THROWS_AS(decode_metrics(R"({"a":"much"})"), Error);
  CHECK_THROWS_AS(decode_metrics(R"({"a":true})"), Error);
  CHECK_THROWS_AS(decode_unit(R"({"a":1})"), Error);
}

TEST_CASE("a final result comes back, also one with fewer fields") {
  FinalResult result;
  result.best = 7;
  result.final_trial = 41;
  result.metrics = {{"test_accuracy", 0.91}, {"test_loss", HUGE_VAL}};
  result.model = "a/\"b\".safetensors";
  result.why = "time is up";
  const FinalResult got = *decode_final_result(encode_final_result(result));
  CHECK(got.best == 7);
  CHECK(got.final_trial == 41);
  CHECK(got.metrics == result.metrics);
  CHECK(got.model == result.model);
  CHECK(got.why == result.why);
  CHECK_FALSE(decode_final_result("").has_value());
  CHECK(decode_final_result("{\"best\":3}")->best == 3);
  CHECK_THROWS_AS(decode_final_result("{\"best\":\"x\"}"), Error);
  CHECK_THROWS_AS(decode_final_result("nonsense"), Error);
}

}  // namespace dtune
