// Trials that fail: what counts as a result, what is tried again, what ends a
// study.
#include "app/memory_group.h"
#include "app/program.h"
#include "app/program_json.h"
#include "skip.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace dtune;  // NOLINT: a test

namespace {

// A study of a shell script, which gets x (0 or 1) as $1; both are tried.
std::string grid_of(const std::string& script, const std::string& more = "") {
  return "study: shell\n"
         "command:\n"
         "  run: [sh, script.sh, '{x}']\n"
         "space: { x: { choice: [0, 1] } }\n"
         "sampler: grid\n"
         "scheduler: fifo\n"
         "slots: 2\n" +
         more + "# " + script + "\n";
}

}  // namespace

TEST_CASE(
    "reports of failed trials do not count as results, and the run fails") {
  Workplace place;
  place.write("script.sh", "echo val_accuracy=0.9\nexit 1\n");
  place.write("crash.yaml",
              grid_of("crash", "expect: { val_accuracy: '>= 0.5' }\n"));
  const Outcome outcome =
      place.run({"run", "crash.yaml", "--junit", "crash.xml"});
  CHECK(outcome.code == 3);
  CHECK(contains(outcome.err, "2 reported val_accuracy but failed later"));
  CHECK(contains(outcome.err, "limits.failed_results: use"));
  CHECK_FALSE(contains(outcome.out, "ok      "));
  CHECK(contains(place.read("crash.xml"), "errors=\"1\""));
  CHECK(contains(place.read("crash.xml"), "<failure type=\"missing\""));
  CHECK(place.run({"best", "crash.yaml"}).code == 3);

  SUBCASE("unless the recipe says so") {
    const Outcome used =
        place.run({"resume", "crash.db", "--set", "limits.failed_results=use"});
    CHECK_MESSAGE(used.code == 0, used.err);
    CHECK(json_of(place.run({"best", "crash.db", "--json"}))["value"] == 0.9);
  }
  CHECK(place.orphans().empty());
}

TEST_CASE(
    "a study of which no trial was completed and some failed has failed") {
  Workplace place;
  // The default scheduler pauses some trials before their programs end.
  place.write("pauses.yaml",
              "study: pauses\n"
              "command: { run: \"sh -c 'echo step=1 acc={x}; exit 1'\", "
              "steps: 3 }\n"
              "space: { x: { linear: [0, 1] } }\n"
              "objective: { metric: acc }\n"
              "budget: { trials: 3 }\n"
              "expect: { acc: '>= 0' }\n");
  const Outcome outcome = place.run({"run", "pauses.yaml", "--junit", "p.xml"});
  CHECK_MESSAGE(outcome.code == 3, outcome.out);
  CHECK(contains(outcome.err, "no trial has a result: "));
  CHECK_FALSE(contains(outcome.out, "ok      "));
  CHECK(contains(place.read("p.xml"), "errors=\"1\""));
}

TEST_CASE("what a program writes does not reach the terminal as orders") {
  Workplace place;
  place.write("script.sh", "printf '\\033[31mred\\a\\n'; exit 1\n");
  place.write("red.yaml",
              "study: red\n"
              "command: sh script.sh\n"
              "space: { x: { int: [1, 9] } }\n"
              "objective: score\n"
              "budget: { trials: 1 }\n");
  const Outcome outcome = place.run({"run", "red.yaml"});
  CHECK(outcome.code == 3);
  CHECK(
      contains(outcome.err, "the budget of 1 trial is spent; 1 x bad_output"));
  CHECK(contains(outcome.err, "it last wrote: red)"));
  CHECK_FALSE(contains(outcome.err, "\x1b"));
}

TEST_CASE("a trial that diverges never is the best") {
  Workplace place;
  place.write("script.sh",
              "if [ $1 = 0 ]; then echo val_accuracy=0.5; exit; fi\n"
              "echo val_accuracy=0.99\n"
              "echo val_accuracy=nan\n");
  place.write("diverges.yaml", grid_of("diverges"));
  const Outcome run = place.run({"run", "diverges.yaml", "--quiet", "--json"});
  CHECK_MESSAGE(run.code == 0, run.err);
  CHECK(json_of(run)["value"] == 0.5);
  CHECK(json_of(run)["params"]["x"] == 0);
  const auto status = json_of(place.run({"status", "diverges.db", "--json"}));
  CHECK(status["best"]["params"]["x"] == 0);
  CHECK(status["reasons"]["failed"]["diverged"] == 1);
}

TEST_CASE("failures that are certain to come again are not tried again") {
  Workplace place;
  for (const char* script : {"exit 2", "exit 127", "no-such-program-at-all"}) {
    CAPTURE(script);
    place.write("script.sh", std::string(script) + "\n");
    place.write("certain.yaml", grid_of(script));
    CHECK(place.run({"run", "certain.yaml", "--fresh", "--quiet"}).code == 3);
    const auto status = json_of(place.run({"status", "certain.db", "--json"}));
    REQUIRE(status["failures"].size() == 2);
    for (const auto& trial : status["failures"]) CHECK(trial["attempt"] == 1);
  }
  place.write("missing.yaml",
              "study: missing\ncommand: 'no-such-program-at-all {x}'\n"
              "space: { x: { linear: [0, 1] } }\nbudget: { trials: 2 }\n");
  const Outcome missing = place.run({"run", "missing.yaml"});
  CHECK(missing.code == 3);
  CHECK(contains(missing.err, "no-such-program-at-all"));
  const auto status = json_of(place.run({"status", "missing.db", "--json"}));
  for (const auto& trial : status["failures"]) CHECK(trial["attempt"] == 1);
}

TEST_CASE("a study of which every trial calls itself invalid ends") {
  Workplace place;
  place.write("invalid.yaml",
              "study: invalid\ncommand: 'echo dtune: invalid no such x'\n"
              "space: { x: { linear: [0, 1] } }\nsampler: random\n"
              "scheduler: fifo\nbudget: { trials: 4 }\nslots: 2\n");
  const Outcome outcome = place.run({"run", "invalid.yaml", "--quiet"});
  CHECK(outcome.code == 3);
  CHECK(contains(outcome.err, "trials were reported as invalid"));
  CHECK(contains(outcome.err, "no such x"));
  CHECK(place.orphans().empty());
}

TEST_CASE(
    "a healthy step that takes far longer than the others is waited for") {
  Workplace place;
  place.write("script.sh",
              "echo val_accuracy=0.1\necho val_accuracy=0.2\nsleep 5\n"
              "echo val_accuracy=0.3\n");
  place.write("slow.yaml",
              grid_of("slow", "limits: { lease: 4s, heartbeat: 100ms }\n"));
  const Outcome outcome = place.run({"run", "slow.yaml"});
  CHECK_MESSAGE(outcome.code == 0, outcome.out);
  CHECK_FALSE(contains(outcome.out, "no step was finished"));
  const auto status = json_of(place.run({"status", "slow.db", "--json"}));
  for (const auto& trial : status["list"]) {
    CHECK(trial["attempt"] == 1);
    CHECK(trial["step"] == 3);
  }
}

// The second trial's program asks for more and more, when all of dtune is where
// there is little.
TEST_CASE("a program that the kernel ends for want of memory fails for that") {
#ifdef __SANITIZE_ADDRESS__
  return skip("AddressSanitizer takes more memory than the group has");
#endif
  const MemoryGroup group(128 << 20);
  if (!group.ready()) return skip("control groups of memory need root");
  Workplace place;
  place.write(
      "script.sh",
      "echo step=1 val_accuracy=0.5\n"
      "while [ ! -e go ]; do sleep 0.02; done\n"
      "[ $DTUNE_TRIAL = 2 ] && exec awk 'BEGIN { x = \"x\"; while (1) x = "
      "x x }'\n"
      "echo step=2 val_accuracy=0.6\n");
  place.write("shell.yaml",
              "study: shell\n"
              "command: { run: [sh, script.sh], steps: 2 }\n"
              "space: { x: { log: [0.1, 1] } }\n"
              "sampler: sobol\n"
              "scheduler: fifo\n"
              "budget: { trials: 3 }\n"
              "slots: 1\n");
  RunningProgram program = place.start({"run", "shell.yaml", "--verbose"});
  REQUIRE(program.wait_for("step 1/2"));
  int taken = 0;  // without a `sleep` that has just ended
  for (const std::string& one : place.orphans(/*patience_ms=*/0)) {
    if (group.take(std::stoi(one))) ++taken;
  }
  CHECK(taken >= 4);  // coordinator, agent, worker, shell
  place.write("go", "");
  const Outcome outcome = program.wait();
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  const auto trials =
      json_of(place.run({"status", "shell.db", "--json"}))["list"];
  CHECK(trials[0]["state"] == "complete");
  CHECK(trials[1]["state"] == "failed");
  CHECK(trials[1]["reason"] == "out_of_memory");
  CHECK(trials[1]["failures"] == 1);  // it was not tried again
  CHECK(trials[2]["state"] == "complete");
  CHECK(place.orphans().empty());
}
