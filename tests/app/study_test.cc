// Studies of a shell command, from their first run to their end.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "app/history.h"
#include "app/program.h"
#include "skip.h"
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "dtune/store/sqlite_database.h"

using namespace dtune;  // NOLINT: a test

namespace {

nlohmann::json status_of(const Workplace& place, const std::string& study) {
  const Outcome outcome = place.run({"status", study, "--json"});
  REQUIRE(outcome.code == 0);
  return nlohmann::json::parse(outcome.out);
}

}  // namespace

TEST_CASE("a run tunes, a second one shows the result again") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(6, 3, "0.01"));
  const Outcome first = place.run({"run", "shell.yaml"});
  CHECK_MESSAGE(first.code == 0, first.err);
  CHECK(contains(first.out, "val_accuracy"));
  CHECK(contains(first.out, "shell.db"));
  CHECK(place.has("shell.db"));
  CHECK(place.has("shell.files"));
  const Outcome again = place.run({"run", "shell.yaml"});
  CHECK(again.code == 0);
  CHECK(contains(again.err, "is finished; this is its result"));
  CHECK_FALSE(contains(again.out, "assigned"));
  CHECK(status_of(place, "shell.yaml")["trials"]["total"] == 6);
  CHECK(place.orphans().empty());
}

TEST_CASE("what was tuned can be looked at in every way") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(4, 2, "0"));
  const Outcome run = place.run({"run", "shell.yaml", "--json", "--quiet"});
  REQUIRE(run.code == 0);
  const auto result = nlohmann::json::parse(run.out);
  CHECK(result["passed"] == true);
  for (const char* study : {"shell.yaml", "shell.db", "shell"}) {
    const auto best =
        nlohmann::json::parse(place.run({"best", study, "--json"}).out);
    CHECK(best["params"]["lr"] == result["params"]["lr"]);
    CHECK(best["val_accuracy"].is_number());
  }
  CHECK(contains(place.run({"best", "shell"}).out, "lr"));
  for (const char* other : {"--json", "--pareto"}) {
    CHECK(contains(place.run({"best", "shell", "--recipe", other}).err,
                   "exclude each other"));
  }
  CHECK(contains(place.run({"eval", "shell"}).err,
                 "a study of a program has none: its best point is shown by "
                 "'dtune best shell'"));
  CHECK(place.run({"status", "shell", "--watch"}).out ==
        place.run({"status", "shell"}).out);
  CHECK(contains(place.run({"show", "shell.db", "1"}).out, "trial 1"));
  CHECK(contains(place.run({"show", "shell.db", "9"}).err, "it has 1 to 4"));
  CHECK(contains(place.run({"ls"}).out, "shell.db"));
  CHECK(nlohmann::json::parse(place.run({"ls", "--json"}).out).size() == 1);
  CHECK(place.run({"export", "shell.db", "--csv"}).out.starts_with("trial,"));
  CHECK(place.run({"export", "shell.db"}).code == 2);
  CHECK(
      place.run({"export", "shell.db", "--json", "--output", "x.json"}).code ==
      0);
  CHECK(nlohmann::json::parse(place.read("x.json"))["list"].size() == 4);
  CHECK(place.orphans().empty());
}

TEST_CASE("more budget continues a finished study and keeps its trials") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(3, 2, "0"));
  REQUIRE(place.run({"run", "shell.yaml", "--quiet"}).code == 0);
  CHECK(place.run({"resume", "shell.db", "--trials", "+2", "--quiet"}).code ==
        0);
  auto status = status_of(place, "shell.db");
  CHECK(status["trials"]["total"] == 5);
  CHECK(status["budget"]["trials"] == 5);
  CHECK(place.run({"resume", "shell.db", "--quiet"}).code == 0);
  CHECK(status_of(place, "shell.db")["trials"]["total"] == 5);
  // A larger budget in the recipe is the new total.
  place.write("shell.yaml", shell_recipe(7, 2, "0"));
  CHECK(place.run({"run", "shell.yaml", "--quiet"}).code == 0);
  CHECK(status_of(place, "shell.db")["trials"]["total"] == 7);
  // Most likely meant as three more.
  const Outcome fewer = place.run({"resume", "shell.db", "--trials", "3"});
  CHECK(fewer.code == 2);
  CHECK_MESSAGE(contains(fewer.err, "fewer than the 7 that were started (+3: "),
                fewer.err);
  const Outcome wrong = place.run({"resume", "shell.db", "--trials", "many"});
  CHECK(wrong.code == 2);
  CHECK(contains(wrong.err, "--trials: 'many'"));
}

TEST_CASE("a study that a link leads to is begun anew in its place") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(1, 1, "0"));
  std::filesystem::create_directory(place / "disk");
  REQUIRE(
      place.run({"run", "shell.yaml", "--db", "disk/s.db", "--quiet"}).code ==
      0);
  std::filesystem::create_symlink("disk/s.db", place / "s.db");
  const Outcome anew =
      place.run({"run", "shell.yaml", "--db", "s.db", "--fresh", "--quiet"});
  CHECK_MESSAGE(anew.code == 0, anew.err);
  CHECK(place.has("disk/s.db"));
  CHECK(place.has("disk/s.db.bak-1"));
  CHECK(status_of(place, "s.db")["state"] == "finished");
}

TEST_CASE("a study that cannot go on stays as it was") {
  Workplace place;
  place.write("old.csv", "x,value\n0.1,1\n0.2,2\n");
  place.write("s.yaml",
              "command: { run: \"sh -c 'echo val_loss=$DTUNE_PARAM_X'\", "
              "steps: 1 }\nobjective: val_loss\nwarm_start: [old.csv]\n"
              "space: { x: { linear: [0, 1] } }\nbudget: { trials: 1 }\n");
  REQUIRE(place.run({"run", "s.yaml", "--quiet"}).code == 0);
  std::filesystem::remove(place / "old.csv");
  const auto stays = [&](const std::vector<std::string>& words) {
    CHECK(place.run(words).code == 2);
    const auto status = status_of(place, "s.db");
    CHECK(status["state"] == "finished");
    CHECK(status["budget"]["trials"] == 1);
  };
  stays({"resume", "s.db", "--trials", "+5"});
  stays({"run", "s.yaml", "--trials", "6"});
}

TEST_CASE("where there was no limit, more counts from what was spent") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(3, 2, "0"));
  REQUIRE(place.run({"run", "shell.yaml", "--quiet"}).code == 0);
  edit_database(place / "shell.db",
                "UPDATE study SET budget_trials = 0, searched_seconds = 1e5");
  CHECK(place
            .run({"resume", "shell.db", "--trials", "+2", "--time", "+1h",
                  "--quiet"})
            .code == 0);
  const auto status = status_of(place, "shell.db");
  CHECK(status["trials"]["total"] == 5);
  CHECK(status["budget"]["trials"] == 5);
}

TEST_CASE(
    "Ctrl-C stops cleanly, says how to go on, and resume ends the study") {
  Workplace place;
  place.write("shell.yaml", held_recipe(6, 4, "0.1", 2));
  place.hold();
  {
    RunningProgram program = place.start({"run", "shell.yaml", "--verbose"});
    REQUIRE(program.wait_for("step 1/4"));
    program.send(SIGINT);
    const Outcome outcome = program.wait();
    CHECK(outcome.code == 130);
    CHECK(contains(outcome.err, "resume with: dtune resume shell.db"));
    CHECK(contains(outcome.out, "interrupted"));
  }
  CHECK(place.orphans().empty());
  CHECK(status_of(place, "shell.db")["state"] == "interrupted");
  place.release();
  const Outcome resumed = place.run({"resume", "shell.db"});
  CHECK(resumed.code == 0);
  const auto status = status_of(place, "shell.db");
  CHECK(status["state"] == "finished");
  CHECK(status["trials"]["total"] == 6);
  CHECK(place.orphans().empty());
}

TEST_CASE("a study whose processes are all killed at once can be resumed") {
  Workplace place;
  place.write("shell.yaml", held_recipe(6, 4, "0.1", 3));
  place.hold();
  {
    RunningProgram program = place.start({"run", "shell.yaml", "--verbose"});
    REQUIRE(program.wait_for("step 2/4"));
    program.send_group(SIGKILL);
    CHECK(program.wait().signal == SIGKILL);
  }
  // No process works on it any more, so it shows as interrupted.
  CHECK(status_of(place, "shell.yaml")["state"] == "interrupted");
  place.release();
  const Outcome again = place.run({"run", "shell.yaml"});
  CHECK_MESSAGE(again.code == 0, again.err);
  CHECK(contains(again.err, "continuing the study in shell.db"));
  CHECK(status_of(place, "shell.db")["trials"]["total"] == 6);
  CHECK(place.orphans().empty());
}

TEST_CASE("a database in use is said to be, with the process that has it") {
  Workplace place;
  place.write("shell.yaml", held_recipe(4, 3, "0", 1));
  place.hold();
  RunningProgram program = place.start({"run", "shell.yaml", "--verbose"});
  REQUIRE(program.wait_for("step 1/3"));
  const Outcome second = place.run({"run", "shell.yaml"});
  CHECK(second.code == 75);
  CHECK(contains(second.err, fmt::format("process {}", program.pid())));
  const Outcome fresh = place.run({"run", "shell.yaml", "--fresh"});
  CHECK(fresh.code == 75);
  CHECK(status_of(place, "shell.db")["state"] == "running");
  program.send(SIGTERM);
  CHECK(program.wait().code == 130);
  CHECK(place.orphans().empty());
}

TEST_CASE("a database of another recipe is refused with the changed keys") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(2, 2, "0"));
  REQUIRE(place.run({"run", "shell.yaml", "--quiet"}).code == 0);
  const Outcome refused =
      place.run({"run", "shell.yaml", "--seed", "5", "--trials", "9"});
  CHECK(refused.code == 2);
  CHECK(contains(refused.err, "(changed: seed)"));
  CHECK(contains(refused.err, "--fresh"));
  // What a writer has left that died on a network disk.
  place.write("shell.db-journal", "x");
  const Outcome fresh =
      place.run({"run", "shell.yaml", "--seed", "5", "--fresh"});
  CHECK(fresh.code == 0);
  CHECK(contains(fresh.err, "moved the old study to"));
  CHECK(place.has("shell.db.bak-1"));
  CHECK(place.has("shell.db.bak-1-journal"));
  CHECK(place.has("shell.files.bak-1"));
  CHECK(place.run({"status", "shell.db.bak-1"}).code == 0);
}

TEST_CASE("a fresh start that cannot be leaves the old study where it is") {
  if (!kTrains) return skip(kNoTorch);
  Workplace place;
  place.write("shell.yaml", shell_recipe(2, 2, "0"));
  REQUIRE(place.run({"run", "shell.yaml", "--quiet"}).code == 0);
  const std::string gang = "parallel: { mode: data, ranks: 900 }\n";
  const std::string data =
      "study: nets\ndata: { kind: npz, path: nowhere.npz }\n";
  for (const std::string& recipe : {shell_recipe(2, 2, "0") + gang, data}) {
    CAPTURE(recipe);
    place.write("shell.yaml", recipe);
    const Outcome refused = place.run({"run", "shell.yaml", "--fresh"});
    CHECK(refused.code == 2);
    CHECK_FALSE(place.has("shell.db.bak-1"));
    CHECK_FALSE(place.has("shell.files.bak-1"));
    CHECK(status_of(place, "shell.db")["trials"]["total"] == 2);
  }
  // Nor does it begin one that could not run.
  place.write("other.yaml", data);
  CHECK(place.run({"run", "other.yaml"}).code == 2);
  CHECK_FALSE(place.has("other.db"));
}

TEST_CASE("expectations decide the exit code and are written as JUnit") {
  Workplace place;
  const std::string recipe = shell_recipe(3, 2, "0");
  place.write("shell.yaml", recipe + "expect: { val_accuracy: \">= 0.1\" }\n");
  const Outcome good = place.run({"run", "shell.yaml", "--junit", "good.xml"});
  CHECK(good.code == 0);
  CHECK(contains(good.out, "val_accuracy"));
  CHECK(contains(place.read("good.xml"), "<testsuite"));
  CHECK(contains(place.read("good.xml"), "name=\"val_accuracy &gt;= 0.1\""));
  CHECK_FALSE(contains(place.read("good.xml"), "<failure"));
  // The same study, judged again by what the recipe now expects.
  place.write("shell.yaml", recipe + "expect: { val_accuracy: \">= 0.99\" }\n");
  const Outcome bad = place.run(
      {"run", "shell.yaml", "--junit", "bad.xml", "--json", "--quiet"});
  CHECK(bad.code == 1);
  CHECK(contains(place.read("bad.xml"), "<failure"));
  const auto document = nlohmann::json::parse(bad.out);
  CHECK(document["passed"] == false);
  CHECK(document["expectations"][0]["outcome"] == "failed");
}

TEST_CASE("a study in which every trial fails is exit code 3 and says why") {
  Workplace place;
  place.write("fails.yaml",
              "study: fails\ncommand: \"sh -c 'exit 7'\"\n"
              "space: { x: { linear: [0, 1] } }\nbudget: { trials: 2 }\n"
              "limits: { retries: 0 }\n");
  const Outcome outcome = place.run({"run", "fails.yaml"});
  CHECK(outcome.code == 3);
  CHECK(contains(outcome.err, "error: no trial has a finite val_accuracy"));
  CHECK(contains(outcome.err, "exit code 7"));
  CHECK(place.orphans().empty());
}

TEST_CASE("a search that ends before its first step says what it lacks") {
  Workplace place;
  place.write("short.yaml",
              "study: short\ncommand: sleep 600\n"
              "space: { x: { linear: [0, 1] } }\n"
              "limits: { grace: 100ms }\n");
  const Outcome outcome = place.run({"run", "short.yaml", "--time", "1s"});
  CHECK(outcome.code == 3);
  CHECK_MESSAGE(
      contains(outcome.err,
               "error: no trial has a finite val_accuracy; the time budget of "
               "1s is spent before the first step of a trial was done "
               "(give it more: 'dtune resume' with --time; or shorten a "
               "step)\n"),
      outcome.err);
  CHECK_MESSAGE(contains(outcome.out, "dtune resume short.db --time +60s\n"),
                outcome.out);
}

TEST_CASE("what a program prints is in the agent's log, and is no warning") {
  Workplace place;
  place.write("talks.yaml",
              "study: talks\n"
              "command: \"sh -c 'echo loading data; echo val_accuracy=0.5'\"\n"
              "space: { x: { linear: [0, 1] } }\nbudget: { trials: 1 }\n"
              "slots: 1\n");
  REQUIRE(place.run({"run", "talks.yaml", "--quiet"}).code == 0);
  const std::string log = place.read("talks.files/agent.log");
  CHECK_MESSAGE(contains(log, "[info] slot 0: loading data"), log);
  CHECK_MESSAGE(!contains(log, "[warning]"), log);
}

TEST_CASE("a budget of less than a second is printed as it was set") {
  Workplace place;
  place.write("brief.yaml", shell_recipe(2, 1, "0") + "final: false\n");
  const Outcome plan =
      place.run({"plan", "brief.yaml", "--set", "budget.time=500ms"});
  REQUIRE_MESSAGE(plan.code == 0, plan.err);
  CHECK_MESSAGE(contains(plan.out, "500ms"), plan.out);
}

TEST_CASE("events are one JSON object per line") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(2, 2, "0"));
  REQUIRE(place.run({"run", "shell.yaml", "--quiet", "--events", "log.jsonl"})
              .code == 0);
  std::istringstream lines(place.read("log.jsonl"));
  int reports = 0;
  for (std::string line; std::getline(lines, line);) {
    reports += nlohmann::json::parse(line)["event"] == "report" ? 1 : 0;
  }
  CHECK(reports >= 3);
}

TEST_CASE("trade-offs are printed whole where no terminal is") {
  Workplace place;
  std::string recipe =
      "command: { run: \"echo loss=1 size=2 \", steps: 1 }\n"
      "objective: { metric: loss, goal: minimize, trade_off: [size] }\n"
      "budget: { trials: 1 }\nspace:\n";
  for (int i = 10; i < 40; ++i) {
    recipe += "  parameter_" + std::to_string(i) + ": { linear: [0, 1] }\n";
  }
  place.write("s.yaml", recipe);
  const Outcome outcome = place.run({"run", "s.yaml", "--quiet"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  const Outcome front = place.run({"best", "s.db", "--pareto"});
  CHECK_MESSAGE(contains(front.out, "parameter_39="), front.out);
}

TEST_CASE("a study is looked for without a home folder, too") {
  Workplace place;
  place.environment["HOME"] = "";
  place.environment["XDG_STATE_HOME"] = "";
  const Outcome outcome = place.run({"status", "digits"});
  CHECK(outcome.code == 2);
  CHECK_MESSAGE(contains(outcome.err, "there is no such file"), outcome.err);
}

TEST_CASE("a program's study goes on from elsewhere and where it was moved") {
  Workplace place;
  const auto folder = place / "one";
  std::filesystem::create_directory(folder);
  place.write("one/s.yaml",
              "command: { run: sh train.sh, steps: 1 }\nobjective: val_loss\n"
              "space: { x: { linear: [0, 1] } }\nslots: 1\n"
              "budget: { trials: 1 }\n");
  place.write("one/train.sh", "echo val_loss=$DTUNE_PARAM_X\n");
  const auto run = [&](const std::string& recipe, const std::string& trials) {
    return place.run({"run", recipe, "--quiet", "--trials", trials});
  };
  REQUIRE(run((folder / "s.yaml").string(), "1").code == 0);
  CHECK(run("one/s.yaml", "2").code == 0);
  std::filesystem::rename(folder, place / "two");
  const Outcome resumed =
      place.run({"resume", "two/s.db", "--trials", "+1", "--quiet"});
  CHECK(resumed.code == 2);
  CHECK_MESSAGE(
      contains(resumed.err, "no trial could start: there is no folder"),
      resumed.err);
  const Outcome moved = run("two/s.yaml", "3");
  CHECK_MESSAGE(moved.code == 0, moved.err);
  CHECK(run("two/s.yaml", "4").code == 0);
  const auto status = status_of(place, "two/s.db");
  CHECK(status["trials"]["complete"] == 4);
}

TEST_CASE("Ctrl-C ends programs that write without an end") {
  Workplace place;
  place.write("yes.yaml",
              "command: { run: yes, steps: 3 }\nobjective: val_loss\n"
              "space: { x: { linear: [0, 1] } }\nslots: 1\n");
  RunningProgram program = place.start({"run", "yes.yaml"});
  const auto log = place / "yes.files/agent.log";
  std::error_code error;
  while (!(std::filesystem::exists(log) &&
           std::filesystem::file_size(log, error) > 200'000)) {
    REQUIRE_FALSE(program.ended());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  program.send(SIGINT);
  const Outcome outcome = program.wait();
  CHECK(outcome.code == 130);
  CHECK_MESSAGE(!contains(outcome.out, "silent"), outcome.out);
  CHECK(place.orphans().empty());
}

TEST_CASE("a terminal whose cursor cannot be moved gets lines") {
  Workplace place;
  place.environment["TERM"] = "dumb";
  place.write("shell.yaml", shell_recipe(1, 1, "0"));
  const Outcome outcome = place.start({"run", "shell.yaml"}, true).wait();
  CHECK(outcome.code == 0);
  CHECK_MESSAGE(contains(outcome.out, "trial 1 step 1/1"), outcome.out);
  CHECK_FALSE(contains(outcome.out, "\x1b"));
}

TEST_CASE("the live table leaves the terminal as it was") {
  Workplace place;
  place.write("shell.yaml", held_recipe(4, 3, "0", 1));
  place.hold();
  RunningProgram program = place.start({"run", "shell.yaml"}, true);
  REQUIRE(program.wait_for("lr="));
  program.send(SIGINT);
  const Outcome outcome = program.wait();
  CHECK(outcome.code == 130);
  const size_t hidden = outcome.out.rfind("\x1b[?25l");
  const size_t shown = outcome.out.rfind("\x1b[?25h");
  REQUIRE(hidden != std::string::npos);
  REQUIRE(shown != std::string::npos);
  CHECK(shown > hidden);
  CHECK(contains(outcome.out.substr(shown), "dtune resume shell.db"));
  CHECK(place.orphans().empty());
}

TEST_CASE("a recipe in a folder that cannot be written is kept here") {
  constexpr int kNobody = 65534;
  Workplace place;
  place.write("there/shell.yaml", shell_recipe(2, 1, "0"));
  const auto all = std::filesystem::perms::owner_all;
  const auto look = std::filesystem::perms(0555);
  std::filesystem::permissions(place / "there", look);
  if (::geteuid() == 0) place.become(kNobody);  // root may write everywhere
  const Outcome outcome = place.run({"run", "there/shell.yaml"});
  std::filesystem::permissions(place / "there", all);
  if (outcome.code == 99) {
    return skip("the program lies where only root can run it");
  }
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  CHECK(contains(outcome.err, "cannot be written: the study is kept in"));
  CHECK(place.has("shell.db"));
  CHECK_FALSE(place.has("there/shell.db"));
}

TEST_CASE("status notices damage in pages that it does not read") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(3, 2, "0"));
  REQUIRE(place.run({"run", "shell.yaml", "--quiet"}).code == 0);
  const int64_t page = Database(place / "shell.db", DatabaseAccess::read)
                           .query_number(
                               "SELECT rootpage FROM sqlite_master "
                               "WHERE name = 'decision'");
  std::fstream file(place / "shell.db",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp((page - 1) * 4096);
  file << std::string(2000, '\xa5') << std::flush;
  const Outcome outcome = place.run({"status", "shell.db"});
  CHECK(outcome.code == 3);
  CHECK(contains(outcome.err, "shell.db: the database is damaged: "));
  CHECK(contains(outcome.err, "(save what is left: sqlite3 "));
}

TEST_CASE("killing the coordinator alone leaves no process behind") {
  Workplace place;
  place.write("shell.yaml", held_recipe(6, 20, "0.1", 3));
  place.hold();
  RunningProgram program = place.start({"run", "shell.yaml", "--verbose"});
  REQUIRE(program.wait_for("step 1/20"));
  program.send(SIGKILL);
  CHECK(program.wait().signal == SIGKILL);
  CHECK(place.orphans().empty());
}

TEST_CASE("a reader that saw enough does not make a command fail") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(2, 1, "0"));
  const std::string line = "cd '" + place.path().string() +
                           "' && bash -o pipefail -c '" DTUNE_BINARY
                           " run shell.yaml 2> err.txt | head -1' > out.txt";
  CHECK(std::system(line.c_str()) == 0);
  CHECK(contains(place.read("out.txt"), "started"));
  CHECK(status_of(place, "shell.db")["state"] == "finished");
}

TEST_CASE("a flag of a conditional parameter goes with its value") {
  Workplace place;
  place.write("show.sh",
              "echo \"$*\" >> arguments.txt\necho val_accuracy=0.5\n");
  place.write("shell.yaml",
              "study: shell\n"
              "command: sh show.sh --kind {kind} --depth {depth} -w {width}"
              " --last\n"
              "space:\n"
              "  kind: { choice: [plain, deep] }\n"
              "  depth: { int: [1, 8], when: \"kind == 'deep'\" }\n"
              "  width: { int: [3, 5], when: \"kind == 'plain'\" }\n"
              "sampler: sobol\nscheduler: fifo\n"
              "budget: { trials: 6 }\n"
              "slots: 1\n");
  REQUIRE(place.run({"run", "shell.yaml", "--quiet"}).code == 0);
  std::istringstream lines(place.read("arguments.txt"));
  int deep = 0;
  int plain = 0;
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    if (contains(line, "deep")) {
      ++deep;
      CHECK(line.starts_with("--kind deep --depth "));
      CHECK(line.size() == std::string("--kind deep --depth 1 --last").size());
    } else {
      ++plain;
      CHECK(line.starts_with("--kind plain -w "));
      CHECK(line.size() == std::string("--kind plain -w 3 --last").size());
    }
  }
  CHECK(deep > 0);
  CHECK(plain > 0);
}

TEST_CASE("a condition inside of a shell's script is refused with a remedy") {
  const Workplace place;
  place.write("shell.yaml",
              "study: shell\n"
              "command: \"sh -c 'train --depth {depth}'\"\n"
              "space:\n"
              "  deep: { bool: true }\n"
              "  depth: { int: [1, 8], when: deep }\n");
  const Outcome outcome = place.run({"validate", "shell.yaml"});
  CHECK(outcome.code == 2);
  CHECK(contains(outcome.err, "shell.yaml:2:"));
  CHECK(contains(outcome.err, "or use $DTUNE_PARAM_DEPTH"));
}

TEST_CASE("the line that best prints trains the best point of a command") {
  Workplace place;
  place.write("my work/show me.sh",
              "echo \"$FLAVOR $DTUNE_PARAM_LR $*\" >> arguments.txt\n"
              "echo val_accuracy=$3\n");
  place.write("my work/shell.yaml",
              "study: shell\n"
              "command:\n"
              "  run: [sh, show me.sh, \"it's\", \"a\\tb\", \"{lr}\"]\n"
              "  environment: { FLAVOR: sour cherry }\n"
              "space: { lr: { linear: [0.1, 0.9] } }\n"
              "budget: { trials: 3 }\n");
  REQUIRE(place.run({"run", "my work/shell.yaml", "--quiet"}).code == 0);
  const Outcome best = place.run({"best", "my work/shell.yaml"});
  const auto params = nlohmann::json::parse(
      place.run({"best", "my work/shell.yaml", "--json"}).out)["params"];
  const std::string heading = "train it again:\n";
  const size_t begin = best.out.find(heading);
  REQUIRE(begin != std::string::npos);
  const std::string line = best.out.substr(begin + heading.size());
  CHECK_FALSE(contains(best.out, "--set"));
  std::filesystem::remove(place / "my work/arguments.txt");
  place.write("paste.sh", line);
  const std::string paste =
      "bash '" + (place / "paste.sh").string() + "' > /dev/null";
  CHECK(std::system(paste.c_str()) == 0);
  std::istringstream written(place.read("my work/arguments.txt"));
  std::string sour, cherry, variable, rest;
  written >> sour >> cherry >> variable;
  std::getline(written, rest);
  CHECK(sour + cherry == "sourcherry");
  CHECK(std::stod(variable) == doctest::Approx(params["lr"].get<double>()));
  CHECK(rest == " it's a\tb " + variable);
}

TEST_CASE("the best point of a program is a recipe of that point alone") {
  Workplace place;
  place.write(
      "s.yaml",
      "study: s\n"
      "command: echo val_accuracy=0.{n} {word} {rate}\n"
      "space:\n"
      "  n: { int: [1, 9] }\n"
      "  word: { choice: ['yes', '2'] }\n"
      "  rate: { log: [0.1, 1], when: \"word == '2'\" }\n"
      "points: [{ n: 9, word: '2', rate: 0.5 }, { n: 2, word: 'yes' }]\n"
      "budget: { trials: 4 }\n");
  place.write("s.yaml.txt", "no model");
  REQUIRE(place.run({"run", "s.yaml", "--quiet"}).code == 0);
  const Outcome eval = place.run({"eval", "s.db"});
  CHECK(eval.code == 2);
  CHECK_MESSAGE(contains(eval.err, "a study of a program has none"), eval.err);
  const Outcome text = place.run({"eval", "s.yaml.txt"});
  CHECK_MESSAGE(contains(text.err, "is neither a model nor a study"), text.err);
  place.write("one.yaml", place.run({"best", "s.db", "--recipe"}).out);
  const Outcome run = place.run({"run", "one.yaml", "--quiet"});
  REQUIRE_MESSAGE(run.code == 0, run.err);
  const auto status =
      nlohmann::json::parse(place.run({"status", "one.db", "--json"}).out);
  CHECK(status["trials"]["total"] == 1);
  CHECK(status["best"]["params"] ==
        nlohmann::json::parse(
            place.run({"best", "s.db", "--json"}).out)["params"]);
}

TEST_CASE("an error before there is a result is written as JUnit, too") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(2, 2, "0"));
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"budget.trials", "--set budget.trials: no &apos;=&apos;"},
      {"budget.trials=[", "is not valid YAML"},
      {"sampler=nothing", "nothing"}};
  for (const auto& [set, message] : wrong) {
    CAPTURE(set);
    std::filesystem::remove(place / "x.xml");
    CHECK(place.run({"run", "shell.yaml", "--set", set, "--junit", "x.xml"})
              .code == 2);
    CHECK(contains(place.read("x.xml"), "errors=\"1\""));
    CHECK(contains(place.read("x.xml"), message));
  }
  REQUIRE(place.run({"run", "shell.yaml", "--quiet"}).code == 0);
  CHECK(place
            .run({"resume", "shell.db", "--trials", "many", "--junit",
                  "resume.xml"})
            .code == 2);
  CHECK(contains(place.read("resume.xml"), "--trials: &apos;many&apos;"));
}
