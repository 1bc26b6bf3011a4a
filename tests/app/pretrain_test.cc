// dtune surrogate train and dtune speeds train from outside.
#include "app/program.h"
#include "app/small_curves.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace dtune;  // NOLINT: a test

TEST_CASE("surrogate train writes a prior and weights that eval judges") {
  Workplace place;
  write_small_curves(place / "c.npz");
  const std::vector<std::string> train = {
      "surrogate",     "train",     "c.npz", "--output-prior",
      "p.safetensors", "--samples", "24",    "--output-network",
      "n.safetensors", "--hidden",  "4",     "--leave-out",
      "lungs",         "--seed",    "7"};
  const Outcome outcome = place.run(train);
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  CHECK(contains(outcome.err, "wrote p.safetensors: learnt from 2 cubes"));
  CHECK(contains(outcome.err, "held out: final"));
  const std::string network = place.read("n.safetensors");
  CHECK(contains(network, "--leave-out lungs --hidden 4 --samples"));
  std::vector<std::string> again = train;
  again.insert(again.end(), {"--threads", "3"});
  CHECK(place.run(again).code == 0);
  CHECK(place.read("n.safetensors") == network);

  const Outcome table = place.run(
      {"surrogate", "eval", "c.npz", "--prior", "p.safetensors", "--network",
       "n.safetensors", "--leave-out", "lungs", "--studies", "2", "--json"});
  CHECK_MESSAGE(table.code == 0, table.err);
  const auto json = nlohmann::json::parse(table.out);
  REQUIRE(json["rows"].size() == 25);
  CHECK(json["rows"][24]["predictor"] == "ConvLSTM");
  CHECK(json["rows"][24]["studies"] == 6);
}

TEST_CASE("speeds train writes weights that speeds eval judges") {
  Workplace place;
  place.write("t.csv", "speed\n10\n20\n10\n20\n10\n20\n");
  const std::vector<std::string> train = {
      "speeds", "train",  "--output", "s.safetensors", "--samples",
      "32",     "--seed", "3",        "--traces",      "t.csv"};
  const Outcome outcome = place.run(train);
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  CHECK(contains(outcome.err, "wrote s.safetensors: 32 traces"));
  const std::string weights = place.read("s.safetensors");
  CHECK(contains(weights, "--traces t.csv --samples 32 --seed 3"));
  CHECK(place.run(train).code == 0);
  CHECK(place.read("s.safetensors") == weights);

  const Outcome table =
      place.run({"speeds", "eval", "--weights", "s.safetensors", "--gangs", "2",
                 "--traces", "t.csv", "--json"});
  CHECK_MESSAGE(table.code == 0, table.err);
  const auto json = nlohmann::json::parse(table.out);
  CHECK(json["rows"].size() == 40);  // 6 kinds, recorded, all; 5 ways
  CHECK(json["default"] == "lstm");
}

TEST_CASE("a study is tuned by weights of one's own") {
  Workplace place;
  write_small_curves(place / "c.npz");
  const Outcome trained =
      place.run({"surrogate", "train", "c.npz", "--output-prior",
                 "p.safetensors", "--samples", "24", "--output-network",
                 "n.safetensors", "--hidden", "4", "--seed", "7"});
  REQUIRE_MESSAGE(trained.code == 0, trained.err);
  const std::string recipe =
      "study: own\n"
      "command:\n"
      "  run: awk -v lr={lr} 'BEGIN { for (s = 1; s <= 6; ++s) print "
      "\"val_accuracy=\" 0.5 + 0.3 * lr - 0.1 / s }'\n"
      "  steps: 6\n"
      "space: { lr: { log: [1.0e-3, 1.0], role: learning_rate } }\n"
      "budget: { trials: 4 }\n"
      "slots: 1\n";
  place.write("own.yaml", recipe +
                              "surrogate: { prior: p.safetensors, network: "
                              "n.safetensors }\n");
  place.write("shipped.yaml", recipe);
  const Outcome outcome = place.run({"run", "own.yaml", "--quiet"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  REQUIRE(place.run({"run", "shipped.yaml", "--quiet"}).code == 0);
  const auto first = [&](const std::string& database) {
    const Outcome shown = place.run({"show", database, "1", "--json"});
    return nlohmann::json::parse(shown.out)["params"]["lr"].get<double>();
  };
  // Where the small curves are best after each was smoothed with its neighbours,
  // which is not where the shipped ones are.
  CHECK(first("own.db") == doctest::Approx(0.001));
  CHECK(first("own.db") != first("shipped.db"));
  const Outcome replay = place.run({"replay", "own.db"});
  CHECK_MESSAGE(replay.code == 0, (replay.out + replay.err));
  std::filesystem::remove(place / "p.safetensors");
  const Outcome gone = place.run({"run", "own.yaml", "--fresh", "--quiet"});
  CHECK(gone.code == 2);
  CHECK_MESSAGE(contains(gone.err, "surrogate.prior: "), gone.err);
}
