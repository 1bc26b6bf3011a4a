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
