// dtune surrogate from outside.
#include <cmath>

#include "app/program.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "dtune/curves/curves_file.h"

using namespace dtune;  // NOLINT: a test

namespace {

// Three tasks of 3 x 2 x 2 points and six epochs.
void write_small_curves(const std::filesystem::path& path) {
  std::vector<RecordedCurves> all;
  for (const char* task : {"bags", "lungs", "shoes"}) {
    RecordedCurves curves;
    curves.task = task;
    curves.log10_lr = {-3, -2, -1};
    curves.log10_l2 = {-6, -2};
    curves.dropout = {0, 0.5};
    curves.epochs = {1, 2, 3, 4, 5, 6};
    const double own = 0.02 * static_cast<double>(all.size());
    for (int i = 0; i < 72; ++i) {
      const double end = 0.9 - (0.02 + own) * std::abs(i / 6 - 5);
      curves.values.push_back(float(end * (1 - std::exp(-1.0 - i % 6))));
    }
    all.push_back(curves);
  }
  write_curves(path, all);
}

struct SurrogatePlace : Workplace {
  SurrogatePlace() { write_small_curves(*this / "c.npz"); }
  Outcome surrogate(std::vector<std::string> words) const {
    words.insert(words.begin(), "surrogate");
    return run(words);
  }
};

}  // namespace

TEST_CASE("surrogate train writes a prior and weights that eval judges") {
  SurrogatePlace place;
  const std::vector<std::string> train = {
      "train",     "c.npz", "--output-prior",   "p.safetensors",
      "--samples", "24",    "--output-network", "n.safetensors",
      "--hidden",  "4",     "--leave-out",      "lungs",
      "--seed",    "7"};
  const Outcome outcome = place.surrogate(train);
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  CHECK(contains(outcome.err, "wrote p.safetensors: learnt from 2 cubes"));
  CHECK(contains(outcome.err, "held out: final"));
  const std::string network = place.read("n.safetensors");
  CHECK(contains(network, "--leave-out lungs --hidden 4 --samples"));
  std::vector<std::string> again = train;
  again.insert(again.end(), {"--threads", "3"});
  CHECK(place.surrogate(again).code == 0);
  CHECK(place.read("n.safetensors") == network);

  const Outcome table = place.surrogate(
      {"eval", "c.npz", "--prior", "p.safetensors", "--network",
       "n.safetensors", "--leave-out", "lungs", "--studies", "2", "--json"});
  CHECK_MESSAGE(table.code == 0, table.err);
  const auto json = nlohmann::json::parse(table.out);
  REQUIRE(json["rows"].size() == 25);
  CHECK(json["rows"][24]["predictor"] == "ConvLSTM");
  CHECK(json["rows"][24]["studies"] == 6);
}

TEST_CASE("surrogate eval judges the shipped weights and warns of own data") {
  SurrogatePlace place;
  CHECK(place
            .surrogate({"train", "c.npz", "--output-prior", "p.safetensors",
                        "--prior-only"})
            .code == 0);
  const Outcome own = place.surrogate(
      {"eval", "c.npz", "--prior", "p.safetensors", "--studies", "1"});
  CHECK_MESSAGE(own.code == 0, own.err);
  CHECK(contains(own.out, "ConvLSTM"));
  CHECK(contains(own.err, "--leave-out-own"));
  const Outcome apart =
      place.surrogate({"eval", "c.npz", "--prior", "p.safetensors", "--studies",
                       "1", "--leave-out-own"});
  CHECK(apart.err.empty());
}

TEST_CASE("surrogate says what is wrong with its arguments and files") {
  SurrogatePlace place;
  const auto wrong = [&](std::vector<std::string> words, int code,
                         const std::string& text) {
    const Outcome outcome = place.surrogate(std::move(words));
    CHECK(outcome.code == code);
    CHECK_MESSAGE(contains(outcome.err, text), outcome.err);
  };
  wrong({}, 2, "ACTION is missing");
  wrong({"train"}, 2, "CURVES is missing");
  wrong({"trian", "c.npz"}, 2, "did you mean 'train'?");
  wrong({"train", "c.npz"}, 2, "needs --output-prior FILE");
  wrong({"train", "c.npz", "--output-prior", "p"}, 2, "or --prior-only");
  wrong({"train", "c.npz", "--output-prior", "p", "--prior-only", "--leave-out",
         "shoe"},
        2, "there is no task 'shoe', did you mean 'shoes'?");
  wrong({"train", "c.npz", "--output-prior", "p", "--output-network", "n",
         "--samples", "1", "--minutes", "1"},
        2, "exclude each other");
  wrong({"train", "none.npz", "--output-prior", "p", "--prior-only"}, 2,
        "none.npz");
  wrong({"eval", "c.npz", "--prior", "c.npz"}, 2, "c.npz");
  wrong({"eval", "c.npz", "--network", "c.npz"}, 2, "c.npz");
  wrong({"train", "c.npz", "--output-prior", "p", "--prior-only", "--leave-out",
         "shoes,lungs"},
        2, "two recorded cubes or more");
}
