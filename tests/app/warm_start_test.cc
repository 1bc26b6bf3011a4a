// Studies of a shell command that start from what others found.
#include "app/program.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "dtune/store/sqlite_database.h"

using namespace dtune;  // NOLINT: a test

namespace {

// old.db: a finished study; new.yaml: the same with a warm start.
void prepare(const Workplace& place, const std::string& more = "") {
  place.write("old.yaml", shell_recipe(12, 3, "0") + "sampler: sobol\n");
  const Outcome old = place.run({"run", "old.yaml", "--quiet"});
  REQUIRE_MESSAGE(old.code == 0, old.err);
  place.write("new.yaml",
              shell_recipe(5, 3, "0") + "warm_start: [old.db]\n" + more);
}

nlohmann::json document(const Outcome& outcome) {
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  return nlohmann::json::parse(outcome.out);
}

}  // namespace

TEST_CASE("a study that starts anew does not start from itself") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(1, 1, "0"));
  REQUIRE(place.run({"run", "shell.yaml", "--quiet"}).code == 0);
  const std::vector<std::string> anew = {"run",     "shell.yaml",
                                         "--quiet", "--fresh",
                                         "--set",   "warm_start=[shell.db]"};
  const Outcome refused = place.run(anew);
  CHECK(refused.code == 2);
  CHECK_MESSAGE(contains(refused.err, "this study's own database (keep it: "),
                refused.err);
  CHECK_FALSE(place.has("shell.db.bak-1"));
  CHECK(document(place.run({"status", "shell.db", "--json"}))["state"] ==
        "finished");
}

TEST_CASE("a warm start begins where the old study was best, and is replayed") {
  Workplace place;
  prepare(place);
  const auto old = document(place.run({"best", "old.db", "--json"}));
  const Outcome outcome = place.run({"run", "new.yaml", "--quiet"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  const Outcome first = place.run({"explain", "new.db", "1"});
  CHECK_MESSAGE(first.code == 0, first.err);
  CHECK(contains(first.out, "among the best points of the warm start"));
  const auto found = document(place.run({"best", "new.db", "--json"}));
  CHECK(found["value"].get<double>() >= old["value"].get<double>() - 0.01);
  const Outcome replay = place.run({"replay", "new.db"});
  CHECK_MESSAGE(replay.code == 0, (replay.out + replay.err));
  CHECK(place.run({"status", "new.db"}).code == 0);
}

TEST_CASE("a warm start whose file is gone says so") {
  Workplace place;
  prepare(place);
  std::filesystem::rename(place / "old.db", place / "moved.db");
  for (const char* command : {"validate", "plan", "run"}) {
    const Outcome outcome = place.run({command, "new.yaml"});
    CHECK(outcome.code == 2);
    CHECK(contains(outcome.err, "new.yaml:"));
    CHECK(contains(outcome.err, "old.db: there is no such file (correct"));
    CHECK(contains(outcome.err, "\n  warm_start: [old.db]\n"));
  }
  CHECK_FALSE(place.has("new.db"));
}

TEST_CASE("a warm start says which trials of a table do not count, and why") {
  Workplace place;
  place.write("new.yaml",
              "command: { run: none }\n"
              "space: { lr: { log: [1.0e-5, 1] }, opt: { choice: [a, b] } }\n"
              "objective: acc\nwarm_start: [old.csv]\n");
  place.write("old.csv", "lr,opt,acc\n0.1,a,0.5\n5,a,0.7\n0.1,c,0.9\n");
  const auto plan = document(place.run({"plan", "new.yaml", "--json"}));
  CHECK_MESSAGE(plan["warm_start"][0] ==
                    "old.csv: 1 of 3 trials (the others have no result at a "
                    "point of this study's space; old.csv:3:1: space.lr: 5 is "
                    "outside [1e-05, 1])",
                plan["warm_start"][0].get<std::string>());
  place.write("old.csv", "lr,opt,acc\n0.1,c,0.9\n");
  const Outcome none = place.run({"plan", "new.yaml"});
  CHECK(none.code == 2);
  CHECK_MESSAGE(contains(none.err, "'c' is not one of"), none.err);
}

TEST_CASE("a warm start from another kind of study is refused") {
  Workplace place;
  std::string words;
  SUBCASE("another metric") {
    prepare(place, "objective: val_loss\n");
    words = "its objective is to maximize val_accuracy";
  }
  SUBCASE("a tuner that cannot use it") {
    prepare(place, "sampler: tpe\nscheduler: median\n");
    words = "has no effect with sampler tpe and scheduler median";
  }
  SUBCASE("no study at all") {
    prepare(place);
    place.write("old.db", "something else");
    words = "old.db: is not a database of dtune";
  }
  SUBCASE("a table without the metric") {
    prepare(place);
    place.write("old.csv", "lr,accuracy\n0.1,0.5\n");
    place.write("new.yaml",
                shell_recipe(5, 3, "0") + "warm_start: [old.csv]\n");
    words = "old.csv:1:1: no column is called 'val_accuracy'";
  }
  for (const char* command : {"validate", "run"}) {
    const Outcome outcome = place.run({command, "new.yaml"});
    CHECK(outcome.code == 2);
    CHECK_MESSAGE(contains(outcome.err, words), outcome.err);
  }
  place.write("auto.yaml", shell_recipe(5, 3, "0") + "warm_start: auto\n");
  CHECK(place.run({"validate", "auto.yaml"}).code == 0);
}

TEST_CASE("related studies of this machine are found, noted and kept") {
  Workplace place;
  prepare(place);
  place.write("other.yaml", shell_recipe(4, 2, "0") + "objective: val_loss\n");
  place.write("auto.yaml", shell_recipe(4, 3, "0") + "warm_start: auto\n");
  const Outcome plan = place.run({"plan", "auto.yaml"});
  CHECK_MESSAGE(contains(plan.out, "old.db: 12 trials"), (plan.out + plan.err));
  const Outcome outcome = place.run({"run", "auto.yaml"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  CHECK_MESSAGE(contains(outcome.err, "starts from earlier studies: old.db"),
                outcome.err);
  CHECK(contains(place.run({"explain", "auto.db", "1"}).out,
                 "among the best points of the warm start"));
  // A study that ends later is none of those that this one began with.
  REQUIRE(place.run({"run", "new.yaml", "--quiet"}).code == 0);
  CHECK(place.run({"replay", "auto.db"}).code == 0);
  const Outcome more =
      place.run({"run", "auto.yaml", "--trials", "6", "--quiet"});
  CHECK_MESSAGE(more.code == 0, more.err);
  // Begun anew it starts from the latest; itself is never among them.
  const Outcome anew = place.run({"run", "auto.yaml", "--fresh"});
  CHECK_MESSAGE(contains(anew.err, "new.db: 5 trials"), anew.err);
  CHECK(contains(anew.err, "old.db: 12 trials"));
  CHECK_FALSE(contains(anew.err, "auto.db:"));
}

TEST_CASE("a warm start finds nothing where nothing is noted or related") {
  Workplace place;
  std::string more;
  SUBCASE("switched off") { place.environment["DTUNE_HISTORY"] = "off"; }
  SUBCASE("another metric") {
    more = "objective: { metric: val_loss, goal: minimize }\n";
  }
  SUBCASE("the database is gone") {}
  prepare(place);
  if (more.empty() && place.environment["DTUNE_HISTORY"].empty()) {
    std::filesystem::remove(place / "old.db");
  }
  place.write("auto.yaml",
              shell_recipe(3, 2, "0") + "warm_start: auto\n" + more);
  const Outcome plan = place.run({"plan", "auto.yaml"});
  CHECK_MESSAGE(plan.code == 0, plan.err);
  CHECK_FALSE(contains(plan.out, "old.db"));
}

TEST_CASE("a warm start cannot be both named and found") {
  Workplace place;
  std::string line;
  SUBCASE("beside a name") { line = "warm_start: [auto, old.db]\n"; }
  SUBCASE("in a deterministic study") {
    line = "warm_start: auto\ndeterministic: true\n";
  }
  place.write("bad.yaml", shell_recipe(3, 2, "0") + line);
  const Outcome outcome = place.run({"validate", "bad.yaml"});
  CHECK(outcome.code == 2);
  CHECK_MESSAGE(contains(outcome.err, "'warm_start: auto'"), outcome.err);
}

TEST_CASE("a study of Optuna is imported and goes on") {
  Workplace place;
  place.write("old.yaml", shell_recipe(12, 3, "0") + "sampler: sobol\n");
  REQUIRE(place.run({"run", "old.yaml", "--quiet"}).code == 0);
  REQUIRE(place.run({"export", "old.db", "--optuna", "theirs.db"}).code == 0);
  const Outcome imported = place.run({"import", "--optuna", "theirs.db"});
  REQUIRE_MESSAGE(imported.code == 0, imported.err);
  CHECK(contains(imported.out, "wrote theirs-dtune.csv (12 of 12 trials "));
  const Outcome plan = place.run({"plan", "theirs-dtune.yaml"});
  CHECK_MESSAGE(contains(plan.out, "theirs-dtune.csv: 12 trials"),
                (plan.out + plan.err));
  const auto asked = document(place.run({"ask", "theirs-dtune.yaml"}));
  CHECK(asked["to_step"] <= 3);
  // shell_recipe is best at 0.01.
  CHECK(asked["params"]["lr"].get<double>() > 0.001);
  CHECK(asked["params"]["lr"].get<double>() < 0.1);
}

TEST_CASE("an import overwrites nothing and says what is missing") {
  Workplace place;
  place.write("old.yaml", shell_recipe(2, 2, "0"));
  REQUIRE(place.run({"run", "old.yaml", "--quiet"}).code == 0);
  REQUIRE(place.run({"export", "old.db", "--optuna", "o.db"}).code == 0);
  const auto refused = [&](const std::vector<std::string>& words,
                           const char* why) {
    const Outcome outcome = place.run(words);
    CHECK(outcome.code == 2);
    CHECK_MESSAGE(contains(outcome.err, why), outcome.err);
  };
  refused({"import"}, "needs --optuna FILE");
  refused({"import", "--optuna", "old.yaml"},
          "is not a line of an Optuna journal");
  refused({"import", "--optuna", "old.db"}, "is not an Optuna storage");
  refused({"import", "--optuna", "o.db", "--study", "shel"},
          "there is no 'shel' in o.db, did you mean 'shell'?");
  refused({"import", "--optuna", "o.db", "--output", "o.yaml"},
          "the database of o.yaml would be o.db itself");
  place.write("o-dtune.yaml", "mine");
  refused({"import", "--optuna", "o.db"},
          "o-dtune.yaml: exists already (--force");
  CHECK(place.read("o-dtune.yaml") == "mine");
  Database(place / "o.db", DatabaseAccess::write)
      .execute("INSERT INTO studies VALUES (2, 'other')");
  refused({"import", "--optuna", "o.db", "--force"},
          "holds 2 studies (choose one with --study: shell, other)");
  CHECK(place.run({"import", "--optuna", "o.db", "--force", "--study", "shell"})
            .code == 0);
  CHECK_FALSE(place.read("o-dtune.yaml") == "mine");
}
