#include "dtune/simulate/benchmark.h"

#include <mutex>

#include "dtune/base/clock.h"
#include "dtune/base/error.h"
#include "dtune/base/parallel.h"
#include "dtune/base/random.h"

namespace dtune {
namespace {

// The seed of a study: another one in each world, the same for all contenders.
uint64_t seed_of(const BenchmarkOptions& options, const TrialWorld& world,
                 const BenchmarkRun& run) {
  return mix_seed({options.simulation.seed, hash_text(world.task()),
                   uint64_t(run.world), uint64_t(run.seed)});
}

void run_one(const Worlds& worlds, const std::vector<Contender>& contenders,
             const BenchmarkOptions& options, BenchmarkRun& run) {
  const MonoTime start = system_clock().now();
  const TrialWorld& world = *worlds[run.world];
  const Contender& contender = contenders[run.contender];
  SimulationOptions simulation = options.simulation;
  simulation.seed = seed_of(options, world, run);
  const Recipe recipe = simulated_recipe(world, contender.sampler,
                                         contender.scheduler, simulation.seed);
  const SimulatedTuner tuner = options.make_tuner(recipe, world);
  CalibrationObserver calibration(world, tuner, simulation);
  run.result = simulate(world, recipe, tuner, simulation,
                        options.calibration ? &calibration : nullptr);
  run.coverage = calibration.coverage();
  run.seconds = to_seconds(system_clock().now() - start);
}

}  // namespace

std::vector<BenchmarkRun> run_benchmark(
    const Worlds& worlds, const std::vector<Contender>& contenders,
    const BenchmarkOptions& options) {
  DTUNE_CHECK(options.seeds > 0 && options.threads > 0);
  std::vector<BenchmarkRun> runs;
  for (size_t c = 0; c < contenders.size(); ++c) {
    for (size_t w = 0; w < worlds.size(); ++w) {
      for (int seed = 0; seed < options.seeds; ++seed) {
        runs.push_back({c, w, seed, {}, {}, 0});
      }
    }
  }
  std::mutex mutex;
  size_t done = 0;
  const auto one = [&](size_t i) {
    run_one(worlds, contenders, options, runs[i]);
    const std::lock_guard lock(mutex);
    if (options.progress) options.progress(++done, runs.size());
  };
  parallel_for(runs.size(), one, static_cast<size_t>(options.threads));
  return runs;
}

}  // namespace dtune
