// Many simulated studies: every way of tuning in every world with every seed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dtune/simulate/calibration.h"

namespace dtune {

// One way of tuning.
struct Contender {
  std::string sampler;
  std::string scheduler;
};

struct BenchmarkOptions {
  SimulationOptions simulation;  // its seed is where those of all studies start
  int seeds = 5;
  int threads = 1;
  MakeTuner make_tuner = make_named_tuner;
  bool calibration = false;  // ask the tuners for predictions
  // May be empty. Called after each study, by one thread at a time.
  std::function<void(size_t done, size_t all)> progress;
};

struct BenchmarkRun {
  size_t contender = 0;
  size_t world = 0;
  int seed = 0;  // 0, 1, ... seeds - 1
  SimulationResult result;
  Coverage coverage;   // with BenchmarkOptions::calibration
  double seconds = 0;  // wall clock of the whole study
};

using Worlds = std::vector<std::unique_ptr<TrialWorld>>;

// All runs: contender by contender, world by world, seed by seed. The same
// whatever the number of threads, save `seconds`. Throws the first Error that a
// study threw, in that order.
std::vector<BenchmarkRun> run_benchmark(
    const Worlds& worlds, const std::vector<Contender>& contenders,
    const BenchmarkOptions& options);

}  // namespace dtune
