// Several trials in one worker, from recipe to result.
#include <algorithm>
#include <csignal>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "app/program.h"
#include <doctest/doctest.h>

using namespace dtune;  // NOLINT: a test

namespace {

constexpr const char* kFusedRecipe =
    "study: tiny\n"
    "data: { kind: synthetic, size: [8, 8], classes: 3, samples: 300,"
    " difficulty: 0.2 }\n"
    "model: { arch: cnn-small, width: 4 }\n"
    "train: { epochs: 3, batch_size: 32, device: cpu }\n"
    "space: { lr: { log: [0.005, 0.05] }, dropout: { linear: [0, 0.3] } }\n"
    "sampler: random\n"
    "scheduler: fifo\n"
    "budget: { trials: 6 }\n"
    "resources: { slots: 1, fused: 3 }\n"
    "final: false\n";

// val_loss by trial and step, of a run with these words more.
std::map<std::string, double> fused_losses_of(
    const Workplace& place, const std::vector<std::string>& more) {
  std::vector<std::string> words = {"run", "tiny.yaml", "--fresh", "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  const Outcome run = place.run(words);
  REQUIRE_MESSAGE(run.code == 0, run.err);
  const Outcome curves = place.run({"export", "tiny.db", "--curves"});
  REQUIRE_MESSAGE(curves.code == 0, curves.err);
  std::istringstream lines(curves.out);
  const auto cells = [&lines] {
    std::vector<std::string> row;
    std::string line;
    std::getline(lines, line);
    std::istringstream parts(line);
    for (std::string cell; std::getline(parts, cell, ',');) {
      row.push_back(cell);
    }
    return row;
  };
  const std::vector<std::string> names = cells();
  std::map<std::string, double> losses;
  for (std::vector<std::string> row = cells(); !row.empty(); row = cells()) {
    REQUIRE(row.size() == names.size());
    std::map<std::string, std::string> named;
    for (size_t i = 0; i < row.size(); ++i) named[names[i]] = row[i];
    losses[named.at("trial") + "/" + named.at("step")] =
        std::stod(named.at("val_loss"));
  }
  return losses;
}

}  // namespace

TEST_CASE("fused trials end as single ones do") {
  Workplace place;
  place.write("tiny.yaml", kFusedRecipe);
  const auto fused = fused_losses_of(place, {});
  const auto single = fused_losses_of(place, {"--set", "resources.fused=off"});
  CHECK(fused.size() == 18);
  REQUIRE(fused.size() == single.size());
  for (const auto& [step, loss] : single) {
    CAPTURE(step);
    // Three epochs of rounding.
    CHECK(fused.at(step) == doctest::Approx(loss).epsilon(0.02));
  }
  CHECK(place.orphans().empty());
}

TEST_CASE("fused trials are paused, resumed and cut one by one") {
  Workplace place;
  place.write("tiny.yaml", kFusedRecipe);
  const Outcome run = place.run({"run", "tiny.yaml", "--quiet", "--set",
                                 "scheduler=asha", "--set", "budget.trials=9",
                                 "--set", "train.epochs=4", "--json"});
  REQUIRE_MESSAGE(run.code == 0, run.err);
  const Outcome list = place.run({"export", "tiny.db", "--csv"});
  REQUIRE_MESSAGE(list.code == 0, list.err);
  CAPTURE(list.out);
  CHECK(std::count(list.out.begin(), list.out.end(), '\n') == 1 + 9);
  CHECK_FALSE(contains(list.out, "failed"));
  CHECK(contains(list.out, "complete"));
  CHECK(contains(list.out, "rung"));
}

TEST_CASE("the plan and the live table show what is fused") {
  Workplace place;
  place.write("tiny.yaml", kFusedRecipe);
  const Outcome plan = place.run({"plan", "tiny.yaml"});
  REQUIRE_MESSAGE(plan.code == 0, plan.err);
  CHECK(contains(plan.out, "3 trials at a time (1 slot, 3 fused in each)"));
  RunningProgram run = place.start(
      {"run", "tiny.yaml", "--set", "train.epochs=100000"}, /*terminal=*/true);
  CHECK(run.wait_for("fused 3"));
  run.send(SIGINT);
  run.wait();
  CHECK(place.orphans().empty());
}

TEST_CASE("what cannot be fused is refused") {
  Workplace place;
  place.write("tiny.yaml", kFusedRecipe);
  const auto error = [&](const std::string& setting) {
    const Outcome outcome =
        place.run({"validate", "tiny.yaml", "--set", setting});
    CHECK(outcome.code == 2);
    return outcome.err;
  };
  CHECK(contains(error("resources.fused=1"), "auto, off or 2 to 64"));
  CHECK(contains(error("resources.fused=many"), "auto, off or 2 to 64"));
  CHECK(contains(error("deterministic=true"), "do not repeat"));
  CHECK(contains(error("parallel.mode=data"), "use one of them"));
}
