// `dtune plan`: what a run would do, before it does it.
#include <csignal>

#include "app/program.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace dtune;  // NOLINT: a test

namespace {

std::string database_line(const Workplace& place) {
  const Outcome outcome = place.run({"plan", "shell.yaml", "--json"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  return nlohmann::json::parse(outcome.out)["run"];
}

}  // namespace

TEST_CASE("plan says what a run would do with the database, as the run does") {
  Workplace place;
  place.write("shell.yaml", held_recipe(4, 3, "0.1", 2));
  place.hold();
  CHECK(database_line(place) == "new");
  {
    RunningProgram program = place.start({"run", "shell.yaml", "--verbose"});
    REQUIRE(program.wait_for("step 2/3"));
    CHECK(contains(database_line(place), "works on it: a run has to wait"));
    program.send(SIGINT);
    CHECK(program.wait().code == 130);
  }
  CHECK(contains(database_line(place), "a run continues it: "));
  place.release();
  REQUIRE(place.run({"run", "shell.yaml", "--quiet"}).code == 0);
  CHECK(contains(database_line(place), "finished: a run shows the result"));
  place.write("shell.yaml", held_recipe(9, 3, "0.1", 2));
  CHECK(contains(database_line(place), "a run continues it: 4 trials"));
  place.write("shell.yaml", held_recipe(4, 3, "0.1", 2) + "seed: 5\n");
  CHECK(contains(database_line(place), "a run is refused: "));
  CHECK(contains(database_line(place), "(changed: seed)"));
  CHECK(place.run({"run", "shell.yaml"}).code == 2);
  CHECK(contains(place.run({"plan", "shell.yaml", "--db", "nowhere/s.db"}).out,
                 "a run is refused: nowhere/s.db: its folder does not exist"));
}

TEST_CASE("plan tells the time from the study's own steps") {
  Workplace place;
  // The first of a trial's steps takes no time here, the other two 0.1 s.
  place.write("shell.yaml", shell_recipe(4, 3, "0.1") + "scheduler: fifo\n");
  CHECK(contains(place.run({"plan", "shell.yaml"}).out,
                 "not known before the program has run in a trial"));
  REQUIRE(place.run({"run", "shell.yaml", "--quiet"}).code == 0);
  const Outcome plan = place.run({"plan", "shell.yaml"});
  CHECK(contains(plan.out, "for one full training ("));
  CHECK(contains(plan.out, "steps of this study)"));
  const auto time = nlohmann::json::parse(
      place.run({"plan", "shell.yaml", "--json"}).out)["time"];
  CHECK(time["step_seconds"] >= 0.1);
  CHECK(time["search_seconds_at_most"].get<double>() >=
        time["training_seconds"].get<double>());
  const Outcome measured = place.run({"plan", "shell.yaml", "--measure"});
  CHECK(measured.code == 2);
  CHECK(contains(measured.err, "--measure: the recipe's command trains"));
}

TEST_CASE("plan takes the options by which run overrides a recipe") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(4, 3, "0"));
  const std::vector<std::string> overrides = {
      "--trials", "2", "--seed", "7", "--slots", "1", "--deterministic"};
  std::vector<std::string> plan = {"plan", "shell.yaml", "--json"};
  std::vector<std::string> run = {"run", "shell.yaml", "--quiet"};
  plan.insert(plan.end(), overrides.begin(), overrides.end());
  run.insert(run.end(), overrides.begin(), overrides.end());
  const Outcome before = place.run(plan);
  REQUIRE_MESSAGE(before.code == 0, before.err);
  CHECK(nlohmann::json::parse(before.out)["budget"]["trials"] == 2);
  REQUIRE(place.run(run).code == 0);
  const nlohmann::json after = nlohmann::json::parse(place.run(plan).out);
  CHECK(contains(after["run"], "finished: a run shows the result"));
  CHECK(contains(database_line(place), "a run is refused: "));
}

TEST_CASE("plan says how many points are tried first") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(4, 3, "0") +
                                "points: [{ lr: 0.01 }, { lr: 0.1 }]\n");
  const Outcome plan = place.run({"plan", "shell.yaml"});
  CHECK(plan.code == 0);
  CHECK(contains(plan.out, "2 given points are tried first"));
  CHECK(nlohmann::json::parse(
            place.run({"plan", "shell.yaml", "--json"}).out)["points"] == 2);
}

TEST_CASE("plan shows which way each metric is to go") {
  Workplace place;
  place.write("shell.yaml",
              "command: [sh, -c, 'echo RMSE=1 latency=2 size=3']\n"
              "space: { x: { linear: [0, 1] } }\n"
              "objective: { metric: RMSE, trade_off: [latency, f1] }\n"
              "require: { size: '<= 4' }\n");
  const Outcome plan = place.run({"plan", "shell.yaml"});
  CHECK(plan.code == 0);
  CHECK(contains(plan.out,
                 "goal       minimize RMSE\n"
                 "trade-off  minimize latency\n"
                 "           maximize f1\n"
                 "require    size <= 4\n"));
}

TEST_CASE("plan shows a warm start, and refuses one that run refuses") {
  Workplace place;
  place.write("old.yaml", shell_recipe(3, 2, "0"));
  REQUIRE(place.run({"run", "old.yaml", "--quiet"}).code == 0);
  place.write("new.yaml", shell_recipe(3, 2, "0") + "warm_start: [old.db]\n");
  CHECK(contains(place.run({"plan", "new.yaml"}).out, "old.db: 3 trials"));
  std::filesystem::remove(place / "old.db");
  for (const char* command : {"plan", "run"}) {
    const Outcome outcome = place.run({command, "new.yaml"});
    CHECK(outcome.code == 2);
    CHECK(contains(outcome.err, "old.db: there is no such file"));
  }
}

TEST_CASE("--fresh checks first and moves the old study last") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(2, 2, "0"));
  REQUIRE(place.run({"run", "shell.yaml", "--quiet"}).code == 0);
  const std::string good = shell_recipe(2, 2, "0");
  place.write("shell.yaml", good + "warm_start: [nowhere.db]\n");
  CHECK(place.run({"run", "shell.yaml", "--fresh"}).code == 2);
  place.write("shell.yaml", good);
  for (const std::string address :
       {"nonsense", "tcp://127.0.0.1:99999", "tcp://127.0.0.1:0"}) {
    const Outcome listen =
        place.run({"run", "shell.yaml", "--fresh", "--listen", address});
    CHECK(listen.code == 2);  // the last one lacks keys
    CHECK_FALSE(contains(listen.err, "moved"));
  }
  for (const std::string option :
       {"--junit", "--summary", "--report", "--events", "--trace"}) {
    CAPTURE(option);
    const Outcome nowhere =
        place.run({"run", "shell.yaml", "--fresh", option, "nowhere/file"});
    CHECK(nowhere.code == 2);
    CHECK_MESSAGE(contains(nowhere.err, option + ": nowhere/file: cannot be"),
                  nowhere.err);
    CHECK(nowhere.out.empty());
    CHECK(
        place.run({"resume", "shell.db", "--trials", "+1", option, "."}).code ==
        2);
  }
  CHECK(place.has("shell.db"));
  CHECK_FALSE(place.has("shell.db.bak-1"));
}

TEST_CASE("plan takes the end of a program from the trials before") {
  Workplace place;
  place.write("open.yaml",
              "study: open\n"
              "command: \"sh -c 'sleep 0.1; echo val_accuracy=$0' {x}\"\n"
              "space: { x: { linear: [0.1, 0.9] } }\n"
              "budget: { trials: 2 }\n");
  // No number of steps that only says that there is none.
  const Outcome before = place.run({"plan", "open.yaml"});
  CHECK(contains(before.out, "the recipe does not say how many steps"));
  CHECK_MESSAGE(!contains(before.out, "000000"), before.out);
  REQUIRE(place.run({"run", "open.yaml", "--quiet"}).code == 0);
  const auto time = nlohmann::json::parse(
      place.run({"plan", "open.yaml", "--json"}).out)["time"];
  CHECK(time["training_seconds"] == time["step_seconds"]);
}

TEST_CASE("plan, validate and run warn of a program that cannot be started") {
  Workplace place;
  const auto recipe = [](const std::string& program) {
    return "command: { run: [\"" + program +
           "\", \"{lr}\"], steps: 2 }\nobjective: val_accuracy\n"
           "space: { lr: { log: [1.0e-4, 1] } }\nbudget: { trials: 1 }\n";
  };
  const auto warned = [&](const std::string& program, const std::string& why) {
    CAPTURE(program);
    place.write("p.yaml", recipe(program));
    for (const char* command : {"validate", "plan"}) {
      const Outcome outcome = place.run({command, "p.yaml", "--json"});
      CHECK_MESSAGE(outcome.code == 0, outcome.err);
      const auto lines = nlohmann::json::parse(outcome.out)["warnings"];
      CHECK(lines.size() == (why.empty() ? 0 : 1));
      CHECK_MESSAGE(contains(outcome.err, why), outcome.err);
      CHECK(outcome.err.empty() == why.empty());
    }
  };
  warned("./train.sh",
         "warning: p.yaml:1:17: no trial could start: there is "
         "no program " +
             (place / "train.sh").string());
  const Outcome run = place.run({"run", "p.yaml", "--quiet"});
  CHECK(run.code == 3);
  CHECK(contains(run.err, "warning: p.yaml:1:17: no trial could start"));
  place.write("train.sh", "#!/bin/sh\n");
  warned("./train.sh", "train.sh is not executable (chmod +x)");
  std::filesystem::permissions(place / "train.sh",
                               std::filesystem::perms::owner_all);
  warned("./train.sh", "");
  warned("no-such-program", "there is no program 'no-such-program' in PATH");
  warned("sh", "");
  warned("{lr}", "");
}

TEST_CASE(
    "plan, validate and run warn of points that the budget does not reach") {
  Workplace place;
  place.write("p.yaml", shell_recipe(2, 2, "0") +
                            "points: [{lr: 0.1}, {lr: 0.01}, {lr: 0.2}]\n");
  for (const char* command : {"validate", "plan", "run"}) {
    const Outcome outcome = place.run({command, "p.yaml"});
    CHECK(outcome.code == 0);
    CHECK_MESSAGE(contains(outcome.err,
                           "3 points are given, but the budget ends after 2 "
                           "trials (raise budget.trials, or leave 1 out)"),
                  outcome.err);
  }
  CHECK(place.run({"plan", "p.yaml", "--trials", "3"}).err.empty());
}
