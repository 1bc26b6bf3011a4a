// dtune speeds from outside.
#include "app/program.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace dtune;  // NOLINT: a test

namespace {

struct SpeedsPlace : Workplace {
  Outcome speeds(std::vector<std::string> words) const {
    words.insert(words.begin(), "speeds");
    return run(words);
  }
};

}  // namespace

TEST_CASE("speeds train writes weights that speeds eval judges") {
  SpeedsPlace place;
  place.write("t.csv", "speed\n10\n20\n10\n20\n10\n20\n");
  const std::vector<std::string> train = {
      "train",  "--output", "s.safetensors", "--samples", "32",
      "--seed", "3",        "--traces",      "t.csv"};
  const Outcome outcome = place.speeds(train);
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  CHECK(contains(outcome.err, "wrote s.safetensors: 32 traces"));
  const std::string weights = place.read("s.safetensors");
  CHECK(contains(weights, "--traces t.csv --samples 32 --seed 3"));
  CHECK(place.speeds(train).code == 0);
  CHECK(place.read("s.safetensors") == weights);

  const Outcome table =
      place.speeds({"eval", "--weights", "s.safetensors", "--gangs", "2",
                    "--traces", "t.csv", "--json"});
  CHECK_MESSAGE(table.code == 0, table.err);
  const auto json = nlohmann::json::parse(table.out);
  CHECK(json["rows"].size() == 32);  // 6 kinds, recorded, all; 4 ways
  CHECK(json["default"] == "lstm");
}

TEST_CASE("speeds eval ends with who is best") {
  SpeedsPlace place;
  const Outcome table = place.speeds({"eval", "--gangs", "4"});
  CHECK_MESSAGE(table.code == 0, table.err);
  CHECK(contains(table.out, "periodic"));
  const std::string last =
      table.out.substr(table.out.rfind('\n', table.out.size() - 2) + 1);
  CHECK_MESSAGE(last.starts_with("best of all: lstm"), last);
  CHECK(contains(last, "which is the default"));
}

TEST_CASE("speeds says what is wrong with its arguments and files") {
  SpeedsPlace place;
  place.write("bad.csv", "1\n2\nthree\n");
  const auto wrong = [&](const std::vector<std::string>& words,
                         const std::string& text) {
    const Outcome outcome = place.speeds(words);
    CHECK(outcome.code == 2);
    CHECK_MESSAGE(contains(outcome.err, text), outcome.err);
  };
  wrong({}, "ACTION is missing");
  wrong({"evil"}, "did you mean 'eval'?");
  wrong({"train"}, "needs --output FILE");
  wrong({"train", "--output", "s", "--samples", "0"}, "--samples must be");
  wrong({"train", "--output", "s", "--traces", "bad.csv"},
        "bad.csv:3: 'three'");
  wrong({"eval", "--weights", "bad.csv"}, "bad.csv");
  wrong({"eval", "--weights", "none"}, "none");
  wrong({"eval", "--ranks", "1"}, "--ranks must be from 2 to 64");
}
