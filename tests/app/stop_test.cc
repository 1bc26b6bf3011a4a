// Searches that end before their budget, and winners that are looked at twice.
#include "app/program.h"
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace dtune;  // NOLINT: a test
using nlohmann::json;

namespace {

json status_of(const Workplace& place) {
  const Outcome outcome = place.run({"status", "s.db", "--json"});
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  return json::parse(outcome.out);
}

}  // namespace

TEST_CASE("a search ends when its target is reached") {
  const Workplace place;
  // 0.9 at most, at lr = 0.01 after many steps.
  place.write("s.yaml", shell_recipe(40, 3, "0") +
                            "sampler: sobol\nstop: { target: 0.75 }\n");
  const Outcome outcome = place.run({"run", "s.yaml", "--quiet"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  const json status = status_of(place);
  CHECK(status["best"]["metric"].get<double>() >= 0.75);
  CHECK(status["trials"]["total"].get<int>() < 40);
  CHECK(status["state"] == "finished");
  const std::string why = status["why"];
  CHECK_MESSAGE(contains(why, "the target of 0.75 is reached: trial"), why);
}

TEST_CASE("a search ends where more of it is not worth its cost") {
  const Workplace place;
  // Every trial has the same value but for a hundredth of the gain asked for.
  place.write("s.yaml",
              "study: flat\n"
              "command:\n"
              "  run: awk -v lr={lr} 'BEGIN { print \"val_accuracy=\" 0.8 + "
              "lr / 100000 }'\n"
              "space: { lr: { log: [1.0e-4, 1.0] } }\n"
              "budget: { trials: 60 }\n"
              "slots: 1\n"
              "sampler: random\n"
              "stop: { gain: 0.001 }\n");
  const Outcome outcome = place.run({"run", "s.yaml", "--quiet"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  const json status = status_of(place);
  CHECK(status["trials"]["total"].get<int>() < 20);
  CHECK_MESSAGE(contains(status["why"].get<std::string>(),
                         "a fifth more trials would improve val_accuracy by "
                         "more than 0.001 with a probability of"),
                status["why"]);
}

TEST_CASE("candidates are trained again, and the luckiest is not the best") {
  const Workplace place;
  // A value of the point alone, and luck of the seed that is worth far more.
  place.write(
      "s.yaml",
      "study: luck\n"
      "command:\n"
      "  run: sh -c 'awk -v lr={lr} -v s=$DTUNE_SEED \"BEGIN { srand(s % "
      "100003); print \\\"val_accuracy=\\\" 0.5 + 0.01 * lr + 0.2 * rand() "
      "}\"'\n"
      "space: { lr: { linear: [0.0, 1.0] } }\n"
      "budget: { trials: 12 }\n"
      "slots: 2\n"
      "sampler: sobol\n"
      "final: { candidates: 4 }\n");
  const Outcome outcome = place.run({"run", "s.yaml", "--quiet"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  const json status = status_of(place);
  int repeats = 0;
  for (const json& trial : status["list"]) {
    repeats += trial["kind"] == "repeat" ? 1 : 0;
  }
  CHECK(repeats == 8);
  CHECK(status["trials"]["total"] == 12);
  const Outcome best = place.run({"best", "s.db", "--json"});
  const std::string chosen = json::parse(best.out)["chosen"];
  CHECK_MESSAGE(contains(chosen, "of 4 candidates trial"), chosen);
  CHECK(contains(chosen, "on average of 2 trainings with other seeds"));
  // Again: nothing is left to do, and the winner stays.
  CHECK(place.run({"run", "s.yaml", "--quiet"}).code == 0);
  CHECK(json::parse(place.run({"best", "s.db", "--json"}).out)["chosen"] ==
        chosen);
}
