// A clock that jumps, and a process that dies in the middle of a rename.
#include <csignal>

#include "app/history.h"
#include "app/preload.h"
#include "app/program.h"
#include "skip.h"
#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace dtune;  // NOLINT: a test

TEST_CASE("a clock that jumps by days costs a study nothing") {
  if (preload().empty()) return skip(kNoPreload);
  Workplace place;
  place.write("shell.yaml",
              fmt::format("{}limits: {{ lease: 60s, heartbeat: 300ms }}\n",
                          shell_recipe(6, 6, "0.05")));
  place.write("clock", "0");
  place.environment["LD_PRELOAD"] = preload();
  place.environment["DTUNE_TEST_CLOCK"] = (place / "clock").string();
  RunningProgram program = place.start(
      {"run", "shell.yaml", "--verbose", "--events", "events.json"});
  REQUIRE(program.wait_for("step 1/6"));
  place.write("clock", "259200");
  REQUIRE(program.wait_for("step 3/6"));
  place.write("clock", "-259200");
  const Outcome outcome = program.wait();
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  CHECK_FALSE(contains(outcome.out, "silent"));
  CHECK_FALSE(contains(outcome.out, "lost"));
  CHECK(contradictions(place / "shell.db", place / "events.json").empty());
}

TEST_CASE("what killed writers have left is gone when a study ends") {
  const Workplace place;
  place.write("r.yaml",
              "command: { run: [sh, -c, 'touch "
              "$DTUNE_CHECKPOINT.reports.4711.1.tmp; ls $DTUNE_CHECKPOINT.* "
              ">seen; echo step=1 a=1'], steps: 1 }\n"
              "space: { x: { log: [0.01, 1] } }\n"
              "objective: a\n"
              "budget: { trials: 1 }\n");
  const Outcome outcome = place.run({"run", "r.yaml", "--quiet"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  const std::string left =
      place.read("seen").substr(0, place.read("seen").find('\n'));
  CHECK(contains(left, ".reports.4711.1.tmp"));
  CHECK_FALSE(place.has(left));
}
