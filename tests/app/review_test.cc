// Looking back at studies of a shell command: replay, explain, record.
#include <csignal>

#include "app/program.h"
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/store/sqlite_database.h"

using namespace dtune;  // NOLINT: a test

namespace {

// What people do to a database by hand.
void tamper(const Workplace& place, const std::string& sql) {
  Database(place / "shell.db", DatabaseAccess::write).execute(sql);
}

int64_t number(const Workplace& place, const std::string& sql) {
  return Database(place / "shell.db", DatabaseAccess::write).query_number(sql);
}

nlohmann::json replayed(const Workplace& place, int code = 0) {
  const Outcome outcome = place.run({"replay", "shell.db", "--json"});
  CHECK_MESSAGE(outcome.code == code, outcome.err);
  return nlohmann::json::parse(outcome.out);
}

// A tuner whose decisions can be told beforehand.
constexpr const char* kSobolAsha = "sampler: sobol\nscheduler: asha\n";

bool replay_is_same(const Workplace& place, const std::string& study) {
  return place.run({"replay", study}).code == 0;
}

}  // namespace

TEST_CASE("a study of two slots is replayed: every decision is the same") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(9, 4, "0.01"));
  REQUIRE(place.run({"run", "shell.yaml", "--quiet"}).code == 0);
  const std::string before = place.read("shell.db");
  const Outcome outcome = place.run({"replay", "shell.yaml"});
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  CHECK(contains(outcome.out, "shell.db: all the same: "));
  const auto document = replayed(place);
  CHECK(document["same"] == true);
  CHECK(document["sessions"] == 1);
  CHECK(document["asked"] >= 9);
  CHECK(document["judged"] >= 9);
  CHECK(document["decisions"] ==
        number(place, "SELECT count(*) FROM decision"));
}

TEST_CASE("a replay names the first decision that differs") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(9, 4, "0") + kSobolAsha);
  REQUIRE(place.run({"run", "shell.yaml", "--quiet"}).code == 0);
  int64_t changed = 0;
  std::string words;
  SUBCASE("another step to train to") {
    changed = number(place,
                     "SELECT number FROM decision WHERE maker = 'next' "
                     "ORDER BY number LIMIT 1 OFFSET 2");
    tamper(place, fmt::format("UPDATE decision SET target_step = 2 "
                              "WHERE number = {}",
                              changed));
    words = "recorded  start";
  }
  SUBCASE("a pause that was none") {
    changed = number(place,
                     "SELECT number FROM decision WHERE action = 'pause' "
                     "AND maker = 'judge' ORDER BY number LIMIT 1");
    tamper(place, fmt::format("UPDATE decision SET action = 'cut' "
                              "WHERE number = {}",
                              changed));
    words = "now       pause with trial";
  }
  SUBCASE("another point") {
    changed = number(place,
                     "SELECT number FROM decision WHERE trial = 4 "
                     "AND action = 'start'");
    tamper(place, "UPDATE trial SET point = '{\"lr\":0.5}' WHERE id = 4");
    words = "lr=0.5";
  }
  REQUIRE(changed > 0);
  const Outcome outcome = place.run({"replay", "shell.db"});
  CHECK(outcome.code == 1);
  CHECK(contains(outcome.out,
                 fmt::format("decision {} differs (after report", changed)));
  CHECK(contains(outcome.out, words));
  const auto document = replayed(place, 1);
  CHECK(document["same"] == false);
  CHECK(document["difference"]["decision"] == changed);
  CHECK(document["difference"]["recorded"] != document["difference"]["taken"]);
}

TEST_CASE("other results lead to other decisions, which a replay tells") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(9, 4, "0") + kSobolAsha);
  REQUIRE(place.run({"run", "shell.yaml", "--quiet"}).code == 0);
  // Best becomes worst. Whatever order the two slots finished in, the first
  // trial that was promoted is not the one that would be now.
  tamper(place,
         "UPDATE report SET metrics = json_object('val_accuracy', "
         "1 - json_extract(metrics, '$.val_accuracy'))");
  CHECK(replayed(place, 1)["difference"]["decision"].is_number());
}

TEST_CASE("records that do not fit together cannot be replayed") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(4, 2, "0"));
  REQUIRE(place.run({"run", "shell.yaml", "--quiet"}).code == 0);
  std::string words;
  int code = 2;
  SUBCASE("a row is gone") {
    tamper(place, "DELETE FROM decision WHERE number = 3");
    words = "contradict each other";
  }
  SUBCASE("a report is gone") {
    tamper(place, "DELETE FROM report WHERE sequence = 2");
    words = "contradict each other";
  }
  SUBCASE("made by an older dtune") {
    tamper(place, "UPDATE decision SET after_report = -1");
    words = "was begun by an older dtune";
    code = 3;
  }
  const Outcome outcome = place.run({"replay", "shell.db"});
  CHECK(outcome.code == code);
  CHECK(contains(outcome.err, "shell.db: "));
  CHECK(contains(outcome.err, words));
}

TEST_CASE("a study that was killed, stopped and widened is replayed") {
  std::string tuner;
  SUBCASE("the default tuner") {}
  SUBCASE("brackets") { tuner = "sampler: tpe\nscheduler: hyperband\n"; }
  Workplace place;
  place.hold();
  place.write("shell.yaml", held_recipe(8, 4, "0.05", 2) + tuner);
  {
    RunningProgram program = place.start({"run", "shell.yaml", "--verbose"});
    REQUIRE(program.wait_for("step 2/4"));
    program.send_group(SIGKILL);
    program.wait();
  }
  CHECK(place.orphans().empty());
  CHECK(replayed(place)["same"] == true);
  {
    RunningProgram program = place.start({"resume", "shell.db", "--verbose"});
    REQUIRE(program.wait_for("step"));
    program.send(SIGINT);
    CHECK(program.wait().code == 130);
  }
  place.release();
  CHECK(replayed(place)["sessions"] == 2);
  REQUIRE(place.run({"resume", "shell.db", "--quiet"}).code == 0);
  REQUIRE(place.run({"resume", "shell.db", "--trials", "+4", "--quiet"}).code ==
          0);
  const auto document = replayed(place);
  CHECK(document["same"] == true);
  CHECK(document["sessions"] == 4);
  CHECK(document["asked"] >= 12);
}

TEST_CASE(
    "trials that crash, diverge or are invalid are replayed as they went") {
  Workplace place;
  place.write("shell.yaml",
              "study: shell\n"
              "command:\n"
              "  run: >-\n"
              "    sh -c 'for s in 1 2 3 4; do\n"
              "    if [ $s = 1 ] && [ {x} = 2 ] && [ ! -e mark ];\n"
              "    then touch mark; exit 7; fi;\n"
              "    if [ $s = 1 ] && [ {x} = 3 ]; then exit 5; fi;\n"
              "    if [ $s = 1 ] && [ {x} = 4 ]; then\n"
              "    echo step=$s val_accuracy=nan; exit 0; fi;\n"
              "    if [ {x} = 5 ]; then echo \"dtune: invalid: five\"; exit 0;"
              " fi;\n"
              "    echo step=$s val_accuracy=0.$s{x}; done'\n"
              "  steps: 4\n"
              "space: { x: { int: [1, 8] } }\n"
              "sampler: grid\n"
              "budget: { trials: 7 }\n"
              "slots: 2\n"
              "limits: { retries: 2 }\n");
  const Outcome run = place.run({"run", "shell.yaml", "--quiet"});
  REQUIRE_MESSAGE(run.code == 0, run.err);
  CHECK(number(place, "SELECT count(*) FROM event WHERE state = 'lost'") > 0);
  CHECK(number(place, "SELECT count(*) FROM event WHERE state = 'failed'") > 0);
  CHECK(replayed(place)["same"] == true);
}

TEST_CASE("a study and its trials are explained") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(12, 4, "0") + kSobolAsha);
  REQUIRE(place.run({"run", "shell.yaml", "--quiet"}).code == 0);
  const Outcome study = place.run({"explain", "shell.yaml"});
  CHECK_MESSAGE(study.code == 0, study.err);
  CHECK(contains(study.out, "importance lr"));
  CHECK(contains(study.out, "best       trial "));
  const auto document =
      nlohmann::json::parse(place.run({"explain", "shell", "--json"}).out);
  CHECK(document["best"].size() == 5);
  CHECK(document["importance"]["parameters"][0]["name"] == "lr");
  const Outcome trial = place.run({"explain", "shell.db", "1"});
  CHECK(trial.code == 0);
  CHECK(contains(trial.out, "#1 start"));
  CHECK(contains(trial.out, "Sobol point 1"));
  CHECK(contains(trial.out, "val_accuracy\n"));
  const auto one =
      nlohmann::json::parse(place.run({"explain", "shell", "1", "--json"}).out);
  CHECK(one["proposed"] == "Sobol point 1");
  CHECK(one["decisions"][0]["maker"] == "next");
  CHECK(contains(place.run({"explain", "shell.db", "99"}).err, "it has 1 to"));
}

TEST_CASE("a study names the surrogate that it relies on, and is replayed") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(6, 4, "0") +
                                "sampler: convlstm\nscheduler: freeze-thaw\n");
  const Outcome run = place.run({"run", "shell.yaml", "--quiet"});
  REQUIRE_MESSAGE(run.code == 0, run.err);
  CHECK(replayed(place)["same"] == true);
  CHECK(contains(place.run({"status", "shell"}).out, "\ntuner "));
  const auto status =
      nlohmann::json::parse(place.run({"status", "shell", "--json"}).out);
  CHECK(status["tuner"].is_string());
  const auto one =
      nlohmann::json::parse(place.run({"explain", "shell", "1", "--json"}).out);
  CHECK(one["predicted"].size() == 4);
}

TEST_CASE("a grid of lr, l2 and dropout is recorded, also in two goes") {
  Workplace place;
  const std::string recipe =
      "study: cube\n"
      "command:\n"
      "  run: >-\n"
      "    awk -v lr={lr} -v l2={l2} -v d={dropout}\n"
      "    'BEGIN { if (lr > 0.5) { print \"step=1 val_accuracy=nan\"; exit "
      "};\n"
      "    for (s = 1; s <= 3; ++s) {\n"
      "    print \"step=\" s \" val_accuracy=\" 0.5 + 0.1 * lr - l2 - 0.1 / "
      "s;\n"
      "    fflush();\n"
      "    system(\"sleep 0.05; while [ -e hold ]; do sleep 0.02; done\") } "
      "}'\n"
      "  steps: 3\n"
      "space:\n"
      "  lr: { log: [0.01, 1.0] }\n"
      "  l2: { log: [1.0e-5, 1.0e-3] }\n"
      "  dropout: { linear: [0, 0.5] }\n"
      "slots: 2\n";
  place.write("cube.yaml", recipe);
  const std::vector<std::string> words = {"record",   "cube.yaml", "--output",
                                          "cube.npz", "--points",  "3,2,2",
                                          "--verbose"};
  place.hold();
  {
    RunningProgram program = place.start(words);
    REQUIRE(program.wait_for("step 1/3"));
    program.send(SIGINT);
    const Outcome stopped = program.wait();
    CHECK(stopped.code == 130);
    CHECK(contains(stopped.err, "run the same command again to continue"));
    CHECK_FALSE(place.has("cube.npz"));
  }
  place.release();
  const Outcome outcome = place.run(words);
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  CHECK(contains(outcome.out,
                 "wrote cube.npz: 3 x 2 x 2 = 12 curves of 3 epochs, best "
                 "0.47"));
  CHECK(contains(outcome.out, "4 have no value at all"));
  CHECK(place.has("cube.npz"));
  // From its database, other epochs.
  const Outcome again = place.run(
      {"record", "cube.db", "--output", "b.npz", "--epochs", "1,3", "--json"});
  REQUIRE_MESSAGE(again.code == 0, again.err);
  CHECK(nlohmann::json::parse(again.out)["epochs"].size() == 2);
  // Another training of each point, beside the first.
  std::vector<std::string> twice = words;
  twice.insert(twice.end(), {"--repeats", "2"});
  const Outcome repeated = place.run(twice);
  REQUIRE_MESSAGE(repeated.code == 0, repeated.err);
  CHECK(contains(repeated.out, "(means of 2 trainings each)"));
  CHECK(place.has("cube-2.db"));
  CHECK(contains(place
                     .run({"record", "cube.db", "cube-2.db", "--output",
                           "c.npz", "--json"})
                     .out,
                 "\"repeats\": 2"));
  CHECK(replay_is_same(place, "cube.db"));
  // Other grids, other spaces.
  std::vector<std::string> finer = words;
  std::string& points = finer[5];
  points = "4";
  CHECK(contains(place.run(finer).err, "cube.db: holds another grid"));
  points = "4,x";
  CHECK(contains(place.run(finer).err, "--points: '4,x' is not a list"));
  place.write("shell.yaml", shell_recipe(2, 2, "0"));
  CHECK(contains(place.run({"record", "shell.yaml", "--output", "c.npz"}).err,
                 "the space is made of lr (write space:"));
  CHECK(place.orphans().empty());
}
