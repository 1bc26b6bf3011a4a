// What many simulated studies say about each way of tuning.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dtune/simulate/benchmark.h"

namespace dtune {

// Of one contender at one budget.
struct BudgetStatistics {
  int64_t budget = 0;  // in the unit of the labels
  double mean = 0;     // regret, over all worlds and seeds
  double median = 0;
  // The middle 90% of the mean in a bootstrap that draws tasks, then runs
  // within each.
  double low = 0;
  double high = 0;
  // Mean place among the contenders in the same world with the same seed, 1 is
  // best; equal regrets share the mean of their places.
  double rank = 0;
  // Regret less that of the first contender in the same study (world and seed):
  // the mean, and the middle 90% of it in a bootstrap as above. Below 0:
  // better.
  double difference = 0;
  double difference_low = 0;
  double difference_high = 0;
};

struct ContenderStatistics {
  Contender contender;
  std::vector<BudgetStatistics> budgets;
  int runs = 0;
  double seconds = 0;  // mean wall clock of a study
  double trials = 0;   // mean number of a study
  int cuts = 0;        // of all runs
  int cuts_wrong = 0;
  Coverage coverage;  // of all runs
};

// What the columns of a table are called.
struct BudgetLabels {
  std::vector<int64_t> numbers;
  std::string unit;  // "steps", or "trainings" where those of worlds differ
};
BudgetLabels label_budgets(const SimulationOptions& options,
                           const Worlds& worlds);

// `budgets`: what each is called. REQUIRES: `runs` as run_benchmark made them.
// In the order of `contenders`.
std::vector<ContenderStatistics> summarise(
    const std::vector<BenchmarkRun>& runs, const Worlds& worlds,
    const std::vector<Contender>& contenders,
    const std::vector<int64_t>& budgets);

}  // namespace dtune
