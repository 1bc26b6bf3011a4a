// The sentences of README.md that a user builds on, each held by a real run.
// That equal seeds give equal studies is held by training_test.cc.
#include <algorithm>
#include <csignal>
#include <map>
#include <regex>

#include "app/program.h"
#include "skip.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace dtune;  // NOLINT: a test

namespace {

// The last step of each trial that the output tells of.
std::map<int, int> told_steps(const std::string& out) {
  static const std::regex line("trial (\\d+) step (\\d+)/");
  std::map<int, int> steps;
  for (std::sregex_iterator at(out.begin(), out.end(), line), end; at != end;
       ++at) {
    int& last = steps[std::stoi((*at)[1])];
    last = std::max(last, std::stoi((*at)[2]));
  }
  return steps;
}

// Steps that the database has of each trial.
std::map<int, int> kept_steps(const Workplace& place) {
  const auto status =
      nlohmann::json::parse(place.run({"status", "shell.db", "--json"}).out);
  std::map<int, int> steps;
  for (const auto& trial : status["list"])
    steps[trial["trial"]] = trial["step"];
  return steps;
}

}  // namespace

TEST_CASE("README: the first command finds a good network") {
  if (!kTrains) return skip(kNoTorch);
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist")) {
    return skip("no package dataset-fashion-mnist");
  }
  // A ninth of its images, and a trial of as many steps: 24.
  Workplace place;
  REQUIRE(place.run({"init", "fashion-mnist", "recipe.yaml"}).code == 0);
  const Outcome run =
      place.run({"run", "recipe.yaml", "--set", "budget.trials=2", "--set",
                 "data.limit=6000", "--set", "data.validation=1000", "--set",
                 "train.step={ samples: 1000 }", "--set",
                 "expect.test_accuracy=>= 0.75"});
  CAPTURE(run.out);
  CAPTURE(run.err);
  CHECK(run.code == 0);
}

TEST_CASE("README: exit code 0 ok, 1 an expectation failed") {
  Workplace place;
  place.write("shell.yaml",
              shell_recipe(2, 2, "0") + "expect: { val_accuracy: \">= 0\" }\n");
  CHECK(place.run({"run", "shell.yaml"}).code == 0);
  CHECK(place.run({"run", "shell.yaml", "--set", "expect.val_accuracy=> 2"})
            .code == 1);
}

TEST_CASE("README: exit code 2 the recipe or the data are wrong") {
  if (!kTrains) return skip(kNoTorch);
  Workplace place;
  place.write("recipe.yaml", "study: wrong\nbudget: { trails: 2 }\n");
  CHECK(place.run({"run", "recipe.yaml"}).code == 2);
  place.write("data.yaml",
              "study: wrong\ndata: { kind: npz, path: gone.npz }\n");
  CHECK(place.run({"run", "data.yaml"}).code == 2);
}

TEST_CASE("README: exit code 3 the study failed") {
  Workplace place;
  place.write("fails.yaml",
              "study: fails\ncommand: \"sh -c 'exit 7'\"\n"
              "space: { x: { linear: [0, 1] } }\nbudget: { trials: 2 }\n"
              "limits: { retries: 0 }\n");
  CHECK(place.run({"run", "fails.yaml"}).code == 3);
}

TEST_CASE(
    "README: exit code 75 try again later, 130 interrupted and resumable") {
  Workplace place;
  place.write("shell.yaml", held_recipe(4, 3, "0.2", 1));
  place.hold();
  {
    RunningProgram program = place.start({"run", "shell.yaml", "--verbose"});
    REQUIRE(program.wait_for("step 1/3"));
    CHECK(place.run({"run", "shell.yaml"}).code == 75);
    program.send(SIGINT);
    CHECK(program.wait().code == 130);
  }
  place.release();
  CHECK(place.run({"resume", "shell.db"}).code == 0);
}

TEST_CASE(
    "README: every result is in a SQLite file before it is acknowledged, so a "
    "crash of any process loses at most the step in flight") {
  Workplace place;
  // The last two trials do not end before the processes are killed.
  place.write("shell.yaml",
              shell_recipe(6, 4,
                           "0.2; while [ -e hold ] && [ $DTUNE_TRIAL -gt 4 ]; "
                           "do sleep 0.02; done") +
                  "scheduler: fifo\n");
  place.hold();
  int found = 0;
  for (const char* moment : {"step 2/4", "step 4/4"}) {
    RunningProgram program = place.start({"run", "shell.yaml", "--verbose"});
    REQUIRE(program.wait_for(moment));
    program.send_group(SIGKILL);
    const Outcome killed = program.wait();
    REQUIRE(killed.signal == SIGKILL);
    const std::map<int, int> kept = kept_steps(place);
    for (const auto& [trial, last] : told_steps(killed.out)) {
      CAPTURE(trial);
      REQUIRE(kept.contains(trial));
      CHECK(kept.at(trial) >= last);
      ++found;
    }
  }
  CHECK(found >= 2);
  place.release();
  CHECK(place.run({"run", "shell.yaml", "--quiet"}).code == 0);
  CHECK(kept_steps(place).size() == 6);
}
