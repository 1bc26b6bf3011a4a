#include "dtune/simulate/benchmark.h"

#include "simulate/small_world.h"
#include <doctest/doctest.h>

#include "dtune/simulate/statistics.h"

using namespace dtune;           // NOLINT: a test
using namespace dtune::testing;  // NOLINT

namespace {

Worlds two_worlds() {
  Worlds worlds;
  worlds.push_back(make_cube_world(three_rates("a")));
  worlds.push_back(make_cube_world(three_rates("b")));
  return worlds;
}

BenchmarkOptions options_with(int threads) {
  BenchmarkOptions options;
  options.seeds = 3;
  options.threads = threads;
  options.simulation.noise = 0.05;
  options.simulation.budgets = {2, 4, 8};
  return options;
}

}  // namespace

TEST_CASE("results do not depend on the number of threads") {
  const Worlds worlds = two_worlds();
  const std::vector<Contender> contenders = {{"random", "asha"},
                                             {"sobol", "median"}};
  const auto alone = run_benchmark(worlds, contenders, options_with(1));
  REQUIRE(alone.size() == 12);
  CHECK(alone[7].contender == 1);
  CHECK(alone[10].world == 1);
  CHECK(alone[11].seed == 2);
  for (const int threads : {2, 5, 20}) {
    size_t calls = 0;
    BenchmarkOptions options = options_with(threads);
    options.progress = [&](size_t, size_t all) {
      CHECK(all == 12);
      ++calls;
    };
    const auto together = run_benchmark(worlds, contenders, options);
    CHECK(calls == 12);
    for (size_t i = 0; i < alone.size(); ++i) {
      CHECK(together[i].result.regret == alone[i].result.regret);
      CHECK(together[i].result.decisions == alone[i].result.decisions);
    }
  }
}

TEST_CASE("seeds, worlds and the base seed each give other studies") {
  const Worlds worlds = two_worlds();
  const std::vector<Contender> contenders = {{"random", "fifo"}};
  const auto runs = run_benchmark(worlds, contenders, options_with(1));
  CHECK(runs[0].result.regret != runs[1].result.regret);
  CHECK(runs[0].result.regret != runs[3].result.regret);
  BenchmarkOptions moved = options_with(1);
  moved.simulation.seed = 1;
  CHECK(run_benchmark(worlds, contenders, moved)[0].result.regret !=
        runs[0].result.regret);
}

TEST_CASE("the first study that fails is the one that is reported") {
  const Worlds worlds = two_worlds();
  BenchmarkOptions options = options_with(4);
  options.make_tuner = [](const Recipe& recipe, const TrialWorld& world) {
    if (world.task() == "b") throw Error(ErrorKind::config, "no tuner for b");
    return make_named_tuner(recipe, world);
  };
  CHECK_THROWS_WITH_AS(run_benchmark(worlds, {{"random", "fifo"}}, options),
                       "no tuner for b", Error);
}

namespace {

// Expects 0.6 of everything, give or take.
class HopefulSampler final : public Sampler {
 public:
  std::optional<Proposal> propose(const Study& study, int64_t) override {
    return Proposal{{{"lr", 0.001 * double(1 + study.trials.size())}}, ""};
  }
  std::optional<Prediction> predict(const Study&, const Trial&,
                                    int step) const override {
    return Prediction{step, 0.6, 0.5, 0.7};
  }
};

}  // namespace

TEST_CASE("predictions are compared with what is observed later") {
  const Worlds worlds = two_worlds();
  BenchmarkOptions options = options_with(1);
  options.seeds = 1;
  options.calibration = true;
  options.simulation.noise = 0;
  options.simulation.budgets = {20};
  options.make_tuner = [](const Recipe& recipe, const TrialWorld& world) {
    return SimulatedTuner{std::make_unique<HopefulSampler>(),
                          make_scheduler(recipe, world.steps())};
  };
  const auto runs = run_benchmark(worlds, {{"random", "fifo"}}, options);
  // Ten trials of two steps, each asked about step 2 after step 1. The rates
  // .001 .. .010 end at .4 .. .8, linear in the logarithm: .002 at .52, .003 at
  // .59, .004 at .64, .005 at .68, .006 at .71.
  CHECK(runs[0].coverage.predictions == 10);
  CHECK(runs[0].coverage.inside == 4);
  const auto rows =
      summarise(runs, worlds, {{"random", "fifo"}}, options.simulation.budgets);
  CHECK(rows[0].coverage.predictions == 20);
  CHECK(rows[0].coverage.inside == 8);
}
