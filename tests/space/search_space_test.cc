#include "dtune/space/search_space.h"

#include <cmath>
#include <map>

#include <doctest/doctest.h>

using namespace dtune;  // NOLINT(google-build-using-namespace)

namespace {

Parameter number(const std::string& name, double low, double high) {
  Parameter parameter;
  parameter.name = name;
  parameter.low = low;
  parameter.high = high;
  return parameter;
}

Parameter integer(const std::string& name, double low, double high) {
  Parameter parameter = number(name, low, high);
  parameter.kind = ParameterKind::integer;
  return parameter;
}

Parameter words(const std::string& name, std::vector<Value> choices) {
  Parameter parameter;
  parameter.name = name;
  parameter.kind = ParameterKind::categorical;
  parameter.choices = std::move(choices);
  return parameter;
}

Parameter boolean(const std::string& name) {
  Parameter parameter;
  parameter.name = name;
  parameter.kind = ParameterKind::boolean;
  return parameter;
}

Parameter when(Parameter parameter, const std::string& condition) {
  parameter.when = condition;
  return parameter;
}

Value decode_one(const Parameter& parameter, double unit) {
  return SearchSpace({parameter}).decode(std::vector{unit}).at(parameter.name);
}

// How many of evenly spread coordinates decode to each value.
std::map<std::string, int> shares(const Parameter& parameter, int count) {
  std::map<std::string, int> result;
  for (int i = 0; i < count; ++i) {
    ++result[to_string(decode_one(parameter, (i + 0.5) / count))];
  }
  return result;
}

SearchSpace optimizer_space() {
  return SearchSpace(
      {when(boolean("nesterov"), "momentum > 0"),  // before what it reads
       words("optimizer", {Value("sgd"), Value("adam")}),
       when(number("momentum", 0, 0.9), "optimizer == 'sgd'")});
}

}  // namespace

TEST_CASE("a linear real maps to its range") {
  const Parameter dropout = number("dropout", 0.1, 0.6);
  CHECK(decode_one(dropout, 0) == Value(0.1));
  CHECK(decode_one(dropout, 0.5) == Value(0.35));
  CHECK(decode_one(dropout, 1) == Value(0.6));
}

TEST_CASE("a log real is even in the logarithm") {
  Parameter lr = number("lr", 1e-4, 1);
  lr.log = true;
  CHECK(decode_one(lr, 0.25) == Value(1e-3));
  CHECK(decode_one(lr, 0.5) == Value(1e-2));
  CHECK(SearchSpace({lr}).encode({{"lr", 0.1}})[0] == doctest::Approx(0.75));
}

TEST_CASE("decoded reals have at most twelve digits") {
  CHECK(decode_one(number("x", 0, 1), 1.0 / 3) == Value(0.333333333333));
  CHECK(decode_one(number("x", 0, 1000), 1.0 / 3) == Value(333.333333333));
  CHECK(decode_one(number("x", 0, 1e15), 1.0 / 3) == Value(333333333333000.0));
}

TEST_CASE("integers have equal shares and both bounds") {
  const auto result = shares(integer("n", 1, 4), 400);
  CHECK(result == std::map<std::string, int>{
                      {"1", 100}, {"2", 100}, {"3", 100}, {"4", 100}});
  CHECK(decode_one(integer("n", 1, 4), 0) == Value(int64_t{1}));
  CHECK(decode_one(integer("n", 1, 4), 1) == Value(int64_t{4}));
}

TEST_CASE("a log integer has the share of its interval in the logarithm") {
  Parameter width = integer("width", 1, 64);
  width.log = true;
  const int count = 100'000;
  const auto result = shares(width, count);
  CHECK(result.size() == 64);
  const double whole = std::log(64.5) - std::log(0.5);
  for (const int v : {1, 2, 7, 63, 64}) {
    const double share = (std::log(v + 0.5) - std::log(v - 0.5)) / whole;
    // One sample of rounding at each edge.
    CHECK(std::abs(result.at(std::to_string(v)) - share * count) <= 2);
  }
}

TEST_CASE("quantised values are exact decimals") {
  Parameter dropout = number("dropout", 0, 0.6);
  dropout.quantum = 0.1;
  std::string values;
  for (const auto& [text, n] : shares(dropout, 700)) {
    values += text + " ";
    CHECK(n == 100);
  }
  CHECK(values == "0.0 0.1 0.2 0.3 0.4 0.5 0.6 ");
}

TEST_CASE("quantised integers keep their steps") {
  Parameter batch = integer("batch", 32, 256);
  batch.quantum = 32;
  CHECK(shares(batch, 800).size() == 8);
  CHECK(decode_one(batch, 0.3) == Value(int64_t{96}));
}

TEST_CASE("a coarse log lattice from its own quantum has no empty cell") {
  Parameter batch = integer("batch", 16, 80);
  batch.quantum = 32;
  batch.log = true;
  CHECK(shares(batch, 1000).size() == 3);
}

TEST_CASE("words and booleans have equal shares") {
  CHECK(shares(words("o", {Value("a"), Value(int64_t{3}), Value(0.5)}), 300) ==
        std::map<std::string, int>{{"a", 100}, {"3", 100}, {"0.5", 100}});
  CHECK(shares(boolean("flip"), 10) ==
        std::map<std::string, int>{{"false", 5}, {"true", 5}});
}

TEST_CASE("coordinates encode as the middle of their cell") {
  const SearchSpace space({integer("n", 1, 4), boolean("flip")});
  CHECK(space.encode({{"n", int64_t{1}}, {"flip", true}}) ==
        std::vector{0.125, 0.75});
}

TEST_CASE("inactive parameters are left out and encode as one half") {
  const SearchSpace space = optimizer_space();
  const Point adam = space.decode(std::vector{0.9, 0.9, 0.9});
  CHECK(adam == Point{{"optimizer", Value("adam")}});
  CHECK(space.encode(adam) == std::vector{0.5, 0.75, 0.5});
  const Point sgd = space.decode(std::vector{0.9, 0.1, 0.5});
  CHECK(sgd == Point{{"optimizer", Value("sgd")},
                     {"momentum", 0.45},
                     {"nesterov", true}});
  CHECK(space.decode(std::vector{0.9, 0.1, 0.0}).contains("nesterov") == false);
}

TEST_CASE("a condition that reads an inactive parameter does not hold") {
  const SearchSpace space({words("a", {Value("x"), Value("y")}),
                           when(number("b", 0, 1), "a == 'x'"),
                           when(number("c", 0, 1), "not b > 2")});
  CHECK(space.decode(std::vector{0.9, 0.5, 0.5}).size() == 1);
  CHECK(space.decode(std::vector{0.1, 0.5, 0.5}).size() == 3);
}

TEST_CASE("constraints apply where all they read is active") {
  const SearchSpace space(optimizer_space().parameters(), {"momentum < 0.5"});
  CHECK(space.satisfies({{"optimizer", Value("adam")}}));
  CHECK(space.satisfies({{"optimizer", Value("sgd")}, {"momentum", 0.4}}));
  CHECK_FALSE(
      space.satisfies({{"optimizer", Value("sgd")}, {"momentum", 0.6}}));
}

TEST_CASE("the reason why a point is invalid names the parameter") {
  Parameter batch = integer("batch", 32, 256);
  batch.quantum = 32;
  const SearchSpace space(
      {number("lr", 0.001, 0.5), batch,
       words("opt", {Value("sgd"), Value("adam")}), boolean("flip"),
       when(number("momentum", 0, 0.9), "opt == 'sgd'")},
      {"lr * batch < 100"});
  const Point good = {{"lr", 0.1},
                      {"batch", int64_t{64}},
                      {"opt", Value("adam")},
                      {"flip", false}};
  const auto reason = [&](const std::string& name, const Value& value) {
    Point point = good;
    point[name] = value;
    return space.reason_invalid(point);
  };
  CHECK(space.valid(good));
  CHECK(reason("lr", 0.9) == "space.lr: 0.9 is outside [0.001, 0.5]");
  CHECK(reason("lr", std::nan("")) == "space.lr: nan is outside [0.001, 0.5]");
  CHECK(reason("lr", int64_t{0}) == "space.lr: '0' is not a real number");
  CHECK(reason("batch", int64_t{65}) ==
        "space.batch: 65 is not 32 + k 32 (the nearest is 64)");
  CHECK(reason("batch", 64.0) == "space.batch: '64.0' is not an integer");
  CHECK(reason("opt", Value("adm")) ==
        "space.opt: 'adm' is not one of sgd, adam");
  CHECK(reason("flip", int64_t{1}) ==
        "space.flip: '1' is neither true nor false");
  CHECK(reason("momentum", 0.5) ==
        "space.momentum: has a value, but 'opt == 'sgd'' does not hold");
  CHECK(reason("opt", Value("sgd")) == "space.momentum: has no value");
  CHECK(reason("batc", int64_t{64}) ==
        "space.batc: is not a parameter of this space, did you mean 'batch'?");
  Point heavy = good;
  heavy["lr"] = 0.5;
  heavy["batch"] = int64_t{256};
  CHECK(space.reason_invalid(heavy) ==
        "constraints[0]: 'lr * batch < 100' does not hold");
}

TEST_CASE("the number of points is known for discrete spaces") {
  Parameter dropout = number("dropout", 0, 0.6);
  dropout.quantum = 0.1;
  CHECK(SearchSpace({dropout, boolean("flip"), integer("n", 1, 10)})
            .cardinality() == 140);
  CHECK_FALSE(SearchSpace({dropout, number("lr", 0, 1)}).cardinality());
  CHECK(SearchSpace().cardinality() == 1);
  const Parameter large = integer("n", 1, 1e12);
  Parameter other = large;
  other.name = "m";
  CHECK(SearchSpace({large, other}).cardinality() == uint64_t{1} << 53);
}

TEST_CASE("parameters are found by name") {
  const SearchSpace space = optimizer_space();
  CHECK(space.find("momentum") == 2);
  CHECK_FALSE(space.find("lr"));
  CHECK(space.dimensions() == 3);
}
