// dtune simulate from outside.
#include <cmath>

#include "app/program.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "dtune/curves/curves_file.h"

using namespace dtune;  // NOLINT: a test

namespace {

// Tasks of 3 x 2 x 2 points and four epochs.
void write_named_curves(const std::filesystem::path& path,
                        const std::vector<std::string>& tasks) {
  std::vector<RecordedCurves> all;
  for (const std::string& task : tasks) {
    RecordedCurves curves;
    curves.task = task;
    curves.log10_lr = {-3, -2, -1};
    curves.log10_l2 = {-6, -2};
    curves.dropout = {0, 0.5};
    curves.epochs = {1, 2, 3, 4};
    for (int i = 0; i < 48; ++i) {
      const double end = 0.9 - 0.02 * std::abs(i / 4 - 5);
      curves.values.push_back(float(end * (1 - std::exp(-1.0 - i % 4))));
    }
    all.push_back(curves);
  }
  write_curves(path, all);
}

struct SimulatePlace : Workplace {
  SimulatePlace() { write_named_curves(*this / "c.npz", {"shoes", "lungs"}); }
  Outcome simulate(std::vector<std::string> words) const {
    words.insert(words.begin(), {"simulate", "c.npz"});
    return run(words);
  }
};

}  // namespace

TEST_CASE("simulate compares samplers in a table, as JSON and as a plot") {
  SimulatePlace place;
  const Outcome outcome = place.simulate(
      {"--sampler", "random,sobol", "--scheduler", "asha,fifo", "--seeds", "2",
       "--json", "out.json", "--plot", "out.svg"});
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  CHECK(contains(outcome.out, "mean regret"));
  CHECK(contains(outcome.out, "sobol + fifo"));
  CHECK(outcome.err.empty());
  const auto json = nlohmann::json::parse(place.read("out.json"));
  REQUIRE(json["rows"].size() == 4);
  for (const auto& row : json["rows"]) {
    CHECK(row["seeds"] == 2);
    for (const char* budget : {"4", "8", "16", "32", "48", "80"}) {
      CHECK(row["regret"][budget].is_number());
      CHECK(row["rank"][budget].is_number());
    }
  }
  CHECK(json["tasks"] == nlohmann::json({"shoes", "lungs"}));
  CHECK(contains(place.read("out.svg"), "random + asha"));
}

TEST_CASE("simulate says the same on any number of threads") {
  SimulatePlace place;
  const auto regrets = [&](const std::string& threads) {
    const Outcome outcome = place.simulate(
        {"--sampler", "random", "--seeds", "4", "--noise", "0.01", "--slots",
         "3", "--spread", "0.5", "--threads", threads, "--json", "out.json"});
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    return nlohmann::json::parse(place.read("out.json"))["rows"][0]["regret"];
  };
  CHECK(regrets("1") == regrets("7"));
}

TEST_CASE("simulate takes chosen tasks, budgets and each one's own scheduler") {
  SimulatePlace place;
  const Outcome outcome =
      place.simulate({"--sampler", "halton,grid", "--task", "lungs", "--budget",
                      "3,9", "--context", "batch_size=64,width=8,depth=2",
                      "--json", "out.json", "--seeds", "1"});
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  const auto json = nlohmann::json::parse(place.read("out.json"));
  CHECK(json["tasks"] == nlohmann::json({"lungs"}));
  CHECK(json["rows"][0]["scheduler"] == "asha");
  CHECK(json["rows"][1]["scheduler"] == "fifo");
  CHECK(json["rows"][0]["regret"].size() == 2);
}

TEST_CASE("simulate takes pairs of a sampler and a scheduler as they are") {
  SimulatePlace place;
  const Outcome outcome = place.simulate(
      {"--sampler", "random+median,halton,random+fifo", "--scheduler",
       "fifo,default", "--json", "out.json", "--seeds", "1"});
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  const auto json = nlohmann::json::parse(place.read("out.json"));
  std::vector<std::string> pairs;
  for (const auto& row : json["rows"]) {
    pairs.push_back(row["sampler"].get<std::string>() + "+" +
                    row["scheduler"].get<std::string>());
  }
  CHECK(pairs == std::vector<std::string>{"random+median", "halton+fifo",
                                          "halton+asha", "random+fifo"});
}

TEST_CASE("simulate runs in the trials of any study's database") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(6, 3, "0"));
  REQUIRE(place.run({"run", "shell.yaml"}).code == 0);
  for (const char* name : {"shell.db", "shell.yaml", "shell"}) {
    const Outcome outcome =
        place.run({"simulate", name, "--sampler", "random", "--scheduler",
                   "fifo", "--seeds", "2", "--json", "out.json"});
    CHECK_MESSAGE(outcome.code == 0, outcome.err);
    const auto json = nlohmann::json::parse(place.read("out.json"));
    // Six trials are all there are: the best of them is found.
    CHECK(json["rows"][0]["trials"] == 6);
    CHECK(json["rows"][0]["regret"]["60"] == 0);
  }
}

TEST_CASE("simulate explains what it cannot take") {
  SimulatePlace place;
  const auto error = [&](const std::vector<std::string>& words) {
    const Outcome outcome = place.simulate(words);
    CHECK(outcome.code == 2);
    CHECK(outcome.out.empty());
    return outcome.err;
  };
  CHECK(contains(error({"--sampler", "randum"}), "did you mean 'random'?"));
  CHECK(contains(error({"--scheduler", "medain"}), "did you mean 'median'?"));
  CHECK(contains(error({"--sampler", "gp+asah"}), "did you mean 'asha'?"));
  CHECK(contains(error({"--task", "shoe"}), "did you mean 'shoes'?"));
  CHECK(contains(error({"--budget", "4,x"}), "--budget: 'x' is not a number"));
  CHECK(contains(error({"--budget", "0"}), "--budget: '0' is not a number"));
  CHECK(contains(error({"--noise", "-1"}), "--noise: '-1' is not a standard"));
  CHECK(
      contains(error({"--noise", "nan"}), "--noise: 'nan' is not a standard"));
  CHECK(contains(error({"--slots", "0"}), "--slots: 0 is out of range"));
  CHECK(contains(error({"--threads", "0"}), "--threads: 0 is out of range"));
  CHECK(contains(error({"--seeds", "0"}), "--seeds: 0 is out of range"));
  CHECK(contains(error({"--context", "widht=3"}), "did you mean 'width'?"));
  CHECK(contains(error({"--context", "width"}), "'width' is not a size"));
  CHECK(contains(error({"--context", "width=nan"}), "is not a size"));
  CHECK(contains(error({"--plott", "x"}), "did you mean '--plot'?"));
  CHECK(
      contains(error({"--misleading", "reverse"}), "did you mean 'reversed'?"));
}

TEST_CASE("simulated worlds mislead where --misleading asks for it") {
  SimulatePlace place;
  const auto regret = [&](std::vector<std::string> words) {
    words.insert(words.end(),
                 {"--sampler", "grid", "--scheduler", "fifo", "--seeds", "1",
                  "--budget", "4", "--json", "out.json"});
    const Outcome outcome = place.simulate(words);
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    return nlohmann::json::parse(place.read("out.json"));
  };
  const auto usual = regret({});
  const auto reversed = regret({"--misleading", "reversed"});
  CHECK(usual["misleading"] == "");
  CHECK(reversed["misleading"] == "reversed");
  CHECK(usual["rows"][0]["regret"] != reversed["rows"][0]["regret"]);
}

TEST_CASE(
    "a network is not judged on its own training tasks without --allow-seen") {
  SimulatePlace place;
  write_named_curves(place / "seen.npz", {"126026"});  // of LCBench
  const auto judged = [&](std::vector<std::string> words) {
    words.insert(words.begin(),
                 {"simulate", "seen.npz", "--seeds", "1", "--budget", "4"});
    return place.run(words);
  };
  const Outcome refused = judged({});
  CHECK(refused.code == 2);
  CHECK(contains(refused.err,
                 "the shipped network was trained on task '126026'"));
  CHECK(judged({"--sampler", "learnt-gp"}).code == 0);
  CHECK(judged({"--sampler", "convlstm", "--allow-seen"}).code == 0);
}

TEST_CASE("the network of CNNs is not judged on the cubes it was trained on") {
  SimulatePlace place;
  const auto judged = [&](const std::string& task) {
    std::filesystem::copy(std::filesystem::path(DTUNE_SOURCE_DIR) /
                              "tests/worlds/cubes" / (task + ".npz"),
                          place / (task + ".npz"));
    return place.run({"simulate", task + ".npz", "--sampler", "convlstm",
                      "--seeds", "1", "--budget", "2"});
  };
  const Outcome refused = judged("t-fashion-sgd");
  CHECK(refused.code == 2);
  CHECK(contains(refused.err,
                 "the shipped network was trained on task 't-fashion-sgd'"));
  CHECK(judged("j-mnist-sgd").code == 0);
}

TEST_CASE("several files are simulated together, each with its own length") {
  SimulatePlace place;
  write_named_curves(place / "d.npz", {"hats"});
  const Outcome outcome =
      place.run({"simulate", "c.npz", "d.npz", "--seeds", "2", "--sampler",
                 "random,sobol", "--scheduler", "fifo", "--json", "o.json"});
  REQUIRE(outcome.code == 0);
  CHECK(contains(outcome.out, "less random + fifo"));
  const auto json = nlohmann::json::parse(place.read("o.json"));
  CHECK(json["tasks"].size() == 3);
  CHECK(json["rows"][0]["runs"] == 6);
  CHECK(json["rows"][0]["difference"]["4"] == 0);
  CHECK(json["rows"][1].contains("difference_low"));
}

TEST_CASE("simulate names the file and member that are damaged") {
  SimulatePlace place;
  place.write("broken.npz", place.read("c.npz").substr(0, 200));
  const Outcome broken = place.run({"simulate", "broken.npz"});
  CHECK(broken.code == 2);
  CHECK(contains(broken.err, "broken.npz: cannot be read as a zip archive"));
  const Outcome missing = place.run({"simulate", "nowhere.npz"});
  CHECK(missing.code == 2);
  CHECK(contains(missing.err, "nowhere.npz: cannot be read"));
  CHECK(place.run({"simulate", "nowhere.db"}).code == 2);
}
