// `dtune bench` from outside.
#include "app/program.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace dtune;  // NOLINT: a test

namespace {

// Refused before anything is measured.
void refused(const Workplace& place, std::vector<std::string> words,
             const std::string& why) {
  words.insert(words.begin(), {"bench", "train"});
  const Outcome outcome = place.run(words);
  CHECK(outcome.code == 2);
  CHECK(outcome.out.empty());
  CHECK_MESSAGE(contains(outcome.err, why), outcome.err);
}

}  // namespace

TEST_CASE("a rank that does not exist cannot be disturbed") {
  const Workplace place;
  refused(place, {"--ranks", "4", "--slow", "4:2"},
          "--slow 4:2: there is no rank 4: ranks are 0 to 3");
  refused(place, {"--kill", "2:1"}, "there is no rank 2: ranks are 0 to 1");
  refused(place, {"--ranks", "3", "--spike", "3:1:1"},
          "there is no rank 3: ranks are 0 to 2");
  refused(place, {"--ranks", "3", "--exact", "--spike", "3:1:1"},
          "there is no rank 3: ranks are 0 to 2");
  refused(place, {"--ranks", "1", "--slow", "0:2"},
          "one process alone is never disturbed");
}

TEST_CASE("disturbances of ranks are read as they are written") {
  const Workplace place;
  for (const char* text :
       {"1.5:2", "1e300:2", "nan:2", "1:inf", "1:0.5", "1"}) {
    CAPTURE(text);
    refused(place, {"--slow", text},
            "does not name a rank and its disturbance");
  }
}

TEST_CASE("an invalid learning rate is refused") {
  const Workplace place;
  for (const char* text : {"0", "-1", "nan", "fast", "0.1x"}) {
    refused(place, {"--lr", text}, "not a learning rate");
  }
}

TEST_CASE("bench comm says where it has looked for its library") {
  Workplace place;
  place.environment["DTUNE_LIBRARY_PATH"] = "/nowhere";
  const Outcome outcome = place.run({"bench", "comm"});
  CHECK(outcome.code == 3);
  CHECK(contains(outcome.err, "/nowhere/libdtune_comm.so"));
}
