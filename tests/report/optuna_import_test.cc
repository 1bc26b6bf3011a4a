// Studies of Optuna that are brought in: its files, made here by SQLite alone.
#include "dtune/report/optuna_import.h"

#include <algorithm>
#include <vector>

#include "report/sample_study.h"
#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/report/optuna.h"
#include "dtune/report/optuna_schema.h"
#include "dtune/store/sqlite_database.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

// A study of every kind of distribution; steps begin at 0.
constexpr const char* kTheirs = R"sql(
INSERT INTO studies VALUES (1, 'theirs');
INSERT INTO study_directions VALUES (1, 'MINIMIZE', 1, 0);
INSERT INTO trials VALUES (1, 0, 1, 'COMPLETE', NULL, NULL),
  (2, 1, 1, 'PRUNED', NULL, NULL), (3, 2, 1, 'FAIL', NULL, NULL),
  (4, 3, 1, 'RUNNING', NULL, NULL);
INSERT INTO trial_params (trial_id, param_name, param_value, distribution_json)
  VALUES
  (1, 'lr', 0.01, '{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.001, "high": 0.1, "log": true}}'),
  (1, 'my-own width', 16.0, '{"name": "IntDistribution", "attributes": {"log": false, "step": 8, "low": 8, "high": 64}}'),
  (1, 'act', 1.0, '{"name": "CategoricalDistribution", "attributes": {"choices": [null, "relu, or so", 3, true]}}'),
  (2, 'lr', 0.5, '{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.01, "high": 1.0, "log": true}}'),
  (2, 'my-own width', 8.0, '{"name": "IntDistribution", "attributes": {"log": false, "step": 8, "low": 8, "high": 64}}'),
  (2, 'act', 0.0, '{"name": "CategoricalDistribution", "attributes": {"choices": [null, "relu, or so", 3, true]}}');
INSERT INTO trial_values (trial_id, objective, value, value_type)
  VALUES (1, 0, 0.125, 'FINITE');
INSERT INTO trial_intermediate_values (trial_id, step, intermediate_value,
  intermediate_value_type) VALUES (1, 0, 0.5, 'FINITE'), (1, 1, NULL, 'NAN'),
  (1, 2, 0.25, 'FINITE'), (2, 0, 0.75, 'FINITE');
)sql";

void make_storage(const fs::path& path, const std::string& more = "") {
  Database database(path, DatabaseAccess::create);
  for (const std::string& sql :
       {std::string(kOptunaSchema), std::string(kTheirs), more}) {
    database.execute(sql);
  }
}

OptunaImport import_first(const fs::path& path) {
  return import_optuna(read_optuna(path).at(0), "theirs.csv");
}

}  // namespace

TEST_CASE("a storage of Optuna becomes a table and a recipe") {
  const TemporaryDirectory folder;
  make_storage(folder.path() / "theirs.db");
  const OptunaImport imported = import_first(folder.path() / "theirs.db");
  CHECK(imported.trials == 4);
  CHECK(imported.results == 2);
  CHECK(imported.renamed ==
        std::vector<std::string>{"my-own width -> my-own_width"});
  // Steps begin at 1; the last value of what is complete is the trial's own.
  CHECK(imported.table ==
        "trial,step,value,param.lr,param.my-own_width,param.act\n"
        "0,1,0.5,0.01,16,\"relu, or so\"\n"
        "0,3,0.125,0.01,16,\"relu, or so\"\n"
        "1,1,0.75,0.5,8,None\n");
  const auto says = [&](const char* line) {
    CHECK_MESSAGE(imported.recipe.find(line) != std::string::npos,
                  imported.recipe);
  };
  says("study: theirs\n");
  says("command: { run: none, steps: 3 }\n");
  says("objective: { metric: value, goal: minimize }\n");
  says("  lr: { log: [0.001, 1] }\n");  // both distributions
  says("  my-own_width: { int: [8, 64], step: 8 }\n");
  says("  act: { choice: [\"None\",\"relu, or so\",3,\"True\"] }\n");
  says("warm_start: [\"theirs.csv\"]\n");
}

namespace {

// Trials of Optuna with these parameters; all are complete.
OptunaStudy study_of(
    const std::vector<std::vector<OptunaParameter>>& parameters) {
  OptunaStudy study{.name = "s", .metric = "", .directions = {"MINIMIZE"}};
  for (const auto& own : parameters) {
    OptunaTrial trial;
    trial.number = std::ssize(study.trials);
    trial.state = optuna_state("COMPLETE");
    trial.value = 0.5;
    trial.parameters = own;
    study.trials.push_back(trial);
  }
  return study;
}

OptunaParameter choice_of(const std::string& name, double index,
                          const std::string& choices) {
  return {name, index,
          R"({"name": "CategoricalDistribution", "attributes": {"choices": )" +
              choices + "}}"};
}

OptunaParameter whole_of(const std::string& name, double value) {
  return {name, value,
          R"({"name": "IntDistribution", "attributes": )"
          R"({"log": false, "step": 1, "low": 1, "high": 9}})"};
}

}  // namespace

TEST_CASE("True and False of Optuna are true and false, not words") {
  const auto flag = [](double index) {
    return choice_of("bn", index, "[true, false]");
  };
  const OptunaImport imported =
      import_optuna(study_of({{flag(0)}, {flag(1)}}), "t.csv");
  CHECK(imported.recipe.find("  bn: { bool: true }\n") != std::string::npos);
  CHECK(imported.table == "trial,value,param.bn\n0,0.5,true\n1,0.5,false\n");
}

TEST_CASE("parameters whose names become one stay two") {
  const OptunaImport imported = import_optuna(
      study_of({{whole_of("a.b", 1), whole_of("a_b", 2)}}), "t.csv");
  CHECK(imported.table == "trial,value,param.a_b,param.a_b_\n0,0.5,1,2\n");
  CHECK(imported.renamed ==
        std::vector<std::string>{"a.b -> a_b", "a_b -> a_b_"});
}

TEST_CASE("parameters that not all trials have get the condition they show") {
  const auto opt = [](double index) {
    return choice_of("opt", index, R"(["it's", "adam", "lamb"])");
  };
  const auto layers = [](double n) { return whole_of("layers", n); };
  const auto momentum = whole_of("momentum", 4);
  const auto beta = whole_of("beta", 4);
  const auto third = whole_of("units-3", 7);
  const auto chance = whole_of("chance", 2);
  const OptunaImport imported =
      import_optuna(study_of({{opt(0), layers(1), momentum, chance},
                              {opt(0), layers(3), momentum, third},
                              {opt(1), layers(2), beta},
                              {opt(2), layers(4), beta, third, chance},
                              {opt(1), layers(3), beta, third}}),
                    "t.csv");
  const auto says = [&](const char* line) {
    CHECK_MESSAGE(imported.recipe.find(line) != std::string::npos,
                  imported.recipe);
  };
  says(R"(momentum: { int: [1, 9], when: "opt == \"it's\"" })");
  says(R"(beta: { int: [1, 9], when: "opt in ['adam', 'lamb']" })");
  says(R"(units-3: { int: [1, 9], when: "layers >= 3" })");
  says("chance: { int: [1, 9] }");
  CHECK(imported.conditions.size() == 3);
  CHECK(imported.unexplained ==
        std::vector<std::string>{"chance: 3 of 5 results"});
}

TEST_CASE("database and journal of a study that was exported say the same") {
  const TemporaryDirectory folder;
  const Study study = test::sample_study();
  const StudyFacts facts = test::sample_facts();
  write_optuna_database(study, facts, folder.path() / "o.db");
  write_file_atomic(folder.path() / "o.log", optuna_journal(study, facts),
                    false);
  const OptunaImport database = import_first(folder.path() / "o.db");
  const OptunaImport journal = import_first(folder.path() / "o.log");
  // The final training, number 6, repeats a point of the search.
  CHECK(database.trials == 6);
  CHECK(database.results == 4);
  CHECK(database.table.find("\n6,") == std::string::npos);
  CHECK(database.table == journal.table);
  CHECK(database.recipe == journal.recipe);
  CHECK(database.table.find("\n3,4,0.9125,0.04,") != std::string::npos);
  CHECK(database.recipe.find("metric: val_accuracy, goal: maximize") !=
        std::string::npos);
}

TEST_CASE("a journal has trials that were added as a whole, and words as NaN") {
  const std::string begin =
      R"({"op_code":0,"worker_id":"w","study_name":"s","directions":[1]})"
      "\n"
      R"({"op_code":0,"worker_id":"x","study_name":"s","directions":[1]})"
      "\n";
  const std::string text =
      begin +
      R"({"op_code":4,"worker_id":"w","study_id":0,"state":1,"value":0.5,"values":null,"params":{"x":2.0},"distributions":{"x":"{\"name\": \"IntDistribution\", \"attributes\": {\"log\": true, \"step\": 1, \"low\": 1, \"high\": 9}}"},"intermediate_values":{}})"
      "\n"
      R"({"op_code":4,"worker_id":"w","study_id":0,"datetime_start":"NaN"})"
      "\n"
      R"({"op_code":7,"worker_id":"w","trial_id":1,"step":4,"intermediate_value":-Infinity})"
      "\n"
      R"({"op_code":6,"worker_id":"w","trial_id":1,"state":3,"values":null})"
      "\n{\"op_code\": 6, \"is being wri";
  const auto studies = read_optuna_journal(text, "j.log");
  REQUIRE(studies.size() == 1);
  CHECK(studies[0].trials.size() == 2);
  const OptunaImport imported = import_optuna(studies[0], "t.csv");
  CHECK(imported.table == "trial,value,param.x\n0,0.5,2\n");
  CHECK(imported.recipe.find("x: { int: [1, 9], log: true }") !=
        std::string::npos);
  CHECK_THROWS_WITH_AS(
      read_optuna_journal(begin + "{}\n", "j.log"),
      doctest::Contains("j.log:3:1: is not a line of an Optuna journal"),
      Error);
}

TEST_CASE(
    "a file that is not a storage, or cannot be a warm start, is refused") {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "x.db";
  const auto refused = [&](const char* why) {
    CHECK_THROWS_WITH_AS(import_first(path), doctest::Contains(why), Error);
  };
  SUBCASE("another database") {
    Database(path, DatabaseAccess::create).execute("CREATE TABLE a (b)");
    refused("is not an Optuna storage");
  }
  SUBCASE("another schema") {
    make_storage(path, "UPDATE version_info SET schema_version = 10;");
    refused("has schema 10 of Optuna, only 12");
  }
  SUBCASE("two objectives") {
    make_storage(path,
                 "INSERT INTO study_directions VALUES (2, 'MAXIMIZE', 1, 1);");
    refused("has 2 objectives");
  }
  SUBCASE("no result") {
    make_storage(path, "UPDATE trials SET state = 'FAIL';");
    refused("has no result in 4 trials");
  }
  SUBCASE("a damaged distribution") {
    make_storage(path, "UPDATE trial_params SET distribution_json = '{';");
    refused("has a distribution that cannot be read");
  }
  SUBCASE("a choice that is none") {
    make_storage(path, "UPDATE trial_params SET param_value = 9;");
    refused("has a distribution that cannot be read");
  }
}

}  // namespace dtune
