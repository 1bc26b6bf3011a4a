#include "dtune/simulate/benchmark.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>

#include "dtune/base/error.h"
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
  const auto start = std::chrono::steady_clock::now();
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
  run.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
}

// What the threads share.
struct Work {
  std::atomic<size_t> next = 0;
  std::atomic<bool> failed = false;
  std::mutex mutex;
  size_t done = 0;               // guarded by mutex
  size_t failed_run = SIZE_MAX;  // guarded by mutex
  std::exception_ptr failure;    // guarded by mutex
};

void work_off(Work& work, std::vector<BenchmarkRun>& runs,
              const BenchmarkOptions& options,
              const std::function<void(BenchmarkRun&)>& run) {
  for (size_t i = work.next++; i < runs.size() && !work.failed;
       i = work.next++) {
    std::exception_ptr failure;
    try {
      run(runs[i]);
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(work.mutex);
    if (failure) {
      work.failed = true;
      if (i < work.failed_run) {
        work.failed_run = i;
        work.failure = failure;
      }
    } else if (options.progress) {
      options.progress(++work.done, runs.size());
    }
  }
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
  Work work;
  const auto one = [&](BenchmarkRun& run) {
    run_one(worlds, contenders, options, run);
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 1; i < options.threads; ++i) {
      threads.emplace_back([&] { work_off(work, runs, options, one); });
    }
    work_off(work, runs, options, one);
  }
  if (work.failure) std::rethrow_exception(work.failure);
  return runs;
}

}  // namespace dtune
