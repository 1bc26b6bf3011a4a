// dtune surrogate from outside.
#include "app/program.h"
#include "app/small_curves.h"
#include <doctest/doctest.h>

using namespace dtune;  // NOLINT: a test

namespace {

struct SurrogatePlace : Workplace {
  SurrogatePlace() { write_small_curves(*this / "c.npz"); }
  Outcome surrogate(std::vector<std::string> words) const {
    words.insert(words.begin(), "surrogate");
    return run(words);
  }
};

}  // namespace

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

TEST_CASE("surrogate train without the library that trains writes nothing") {
  SurrogatePlace place;
  place.environment["DTUNE_LIBRARY_PATH"] = "/nowhere";
  const Outcome outcome =
      place.surrogate({"train", "c.npz", "--output-prior", "p.safetensors",
                       "--output-network", "n.safetensors"});
  CHECK(outcome.code == 3);
  CHECK(contains(outcome.err, "install the package dtune-train"));
  CHECK_FALSE(place.has("p.safetensors"));
}

TEST_CASE("surrogate eval judges CNNs by the weights that tune CNNs") {
  Workplace place;
  const auto eval = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"surrogate", "eval"});
    words.insert(words.end(), {"--studies", "1"});
    return place.run(words);
  };
  for (const char* task : {"j-mnist-sgd", "t-fashion-sgd"}) {
    const std::string file = std::string(task) + ".npz";
    std::filesystem::copy(
        std::filesystem::path(DTUNE_SOURCE_DIR) / "tests/worlds/cubes" / file,
        place / file);
  }
  write_small_curves(place / "c.npz");  // of no CNN
  const Outcome shipped = eval({"j-mnist-sgd.npz", "--leave-out-own"});
  REQUIRE_MESSAGE(shipped.code == 0, shipped.err);
  const std::string weights =
      std::string(DTUNE_SOURCE_DIR) + "/lib/dtune/surrogate/weights/cnn-";
  const Outcome named = eval({"j-mnist-sgd.npz", "--leave-out-own", "--prior",
                              weights + "prior.safetensors", "--network",
                              weights + "network.safetensors"});
  CHECK_MESSAGE(named.out == shipped.out, named.err);
  const Outcome seen = eval({"t-fashion-sgd.npz", "--leave-out-own"});
  CHECK(seen.code == 2);
  CHECK(contains(seen.err,
                 "the shipped network was trained on task 't-fashion-sgd' "
                 "(give --network FILE"));
  CHECK(eval({"t-fashion-sgd.npz", "--leave-out-own", "--allow-seen"}).code ==
        0);
  const Outcome both = eval({"j-mnist-sgd.npz", "c.npz"});
  CHECK(both.code == 2);
  CHECK(
      contains(both.err, "(judge them apart, or give --prior and --network)"));
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
