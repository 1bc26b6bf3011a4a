// How fast gangs train: `dtune bench train`, the evaluation of distributed
// training frameworks as a tool (Wang, Kuo, Chou and Fang 2019,
// doi 10.5281/zenodo.3455641: throughput, scaling and where the overheads are).
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "app/gang_bench.h"

namespace dtune {

// "allreduce", "allreduce-later" (no overlap), "ps" (synchronous), "ps-ssp",
// "ps-async", "pipeline" (1F1B), "gpipe".
const std::vector<std::string>& bench_strategies();

struct TrainBenchOptions {
  std::string model = "resnet50";
  int image = 32;    // pixels a side, three channels
  int batch = 32;    // of each rank; pipelines: of all
  int batches = 10;  // of a step; one more step warms up
  int steps = 1;     // that count
  // Low, so that losses of runs can be compared: at 0.01 and batches of 512
  // equal runs of an asynchronous parameter server are a fifth apart in the
  // time to a loss.
  double lr = 0.003;
  std::vector<int> gangs;  // ranks of each that is measured, ascending
  std::vector<std::string> strategies;
  std::vector<Disturbance> disturbances;
  bool watchful = true;  // stragglers: auto
  std::string trace;     // of the last case, or ""
};

// The shares of a rank's time, in percent, as kTimeParts names them.
using TimeShares = std::array<double, std::size(kTimeParts)>;

struct TrainBenchRow {
  std::string strategy;
  int ranks = 1;
  double images_per_second = 0;
  std::vector<double> seconds;  // of each step that counts
  std::vector<double> losses;   // of its training
  double efficiency = 0;        // images/s over ranks times that of one rank;
                                // 0: that was not measured
  // Images/s that the ranks computed at, summed: what nothing but computing
  // would give; 0: not known (one process).
  double speeds = 0;
  TimeShares mean{};                // over the ranks
  std::vector<TimeShares> of_rank;  // empty: one process
  std::vector<double> share;        // of the batch, at the end
  std::vector<int64_t> late;        // rounds that went on without the rank
};

// The row of one strategy. Throws as run_gang; Error(config) where the model
// is unknown.
TrainBenchRow measure_training(const TrainBenchOptions& options,
                               const std::string& strategy, int ranks,
                               double alone);

std::string train_table(const std::vector<TrainBenchRow>& rows);
std::string train_json(const TrainBenchOptions& options,
                       const std::vector<TrainBenchRow>& rows);

}  // namespace dtune
