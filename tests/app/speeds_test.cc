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

TEST_CASE("speeds eval ends with the best predictor") {
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
  wrong({"train", "--output", "s", "--samples", "0"}, "--samples: 0 is out of");
  wrong({"train", "--output", "s", "--traces", "bad.csv"},
        "bad.csv:3: 'three'");
  wrong({"eval", "--weights", "bad.csv"}, "bad.csv");
  wrong({"eval", "--weights", "none"}, "none");
  wrong({"eval", "--ranks", "1"}, "--ranks: 1 is out of range (2 to 64)");
}
