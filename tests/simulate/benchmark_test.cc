#include "dtune/simulate/benchmark.h"

#include "simulate/small_world.h"
#include <doctest/doctest.h>

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

TEST_CASE("the first study that fails is the one that is told of") {
  const Worlds worlds = two_worlds();
  BenchmarkOptions options = options_with(4);
  options.make_tuner = [](const Recipe& recipe, const TrialWorld& world) {
    if (world.task() == "b") throw Error(ErrorKind::config, "no tuner for b");
    return make_named_tuner(recipe, world);
  };
  CHECK_THROWS_WITH_AS(run_benchmark(worlds, {{"random", "fifo"}}, options),
                       "no tuner for b", Error);
}

TEST_CASE("each sampler has a scheduler of its own, wrong names get a hint") {
  CHECK(default_scheduler("random") == "asha");
  CHECK(default_scheduler("grid") == "fifo");
  try {
    default_scheduler("sobbol");
    FAIL("an unknown sampler was taken");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    CHECK(std::string(error.what()).find("did you mean 'sobol'?") !=
          std::string::npos);
  }
}
