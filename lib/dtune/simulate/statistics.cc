#include "dtune/simulate/statistics.h"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "dtune/base/error.h"
#include "dtune/base/random.h"

namespace dtune {
namespace {

constexpr int kResamples = 2000;

double mean_of(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// The value below which a share of them lies, between neighbours in proportion.
double quantile_of(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(place);
  if (below + 1 == values.size()) return values.back();
  const double weight = place - static_cast<double>(below);
  return values[below] * (1 - weight) + values[below + 1] * weight;
}

// Values of runs by the task that they belong to.
using ByTask = std::vector<std::vector<double>>;

double resampled_mean(const ByTask& tasks, Rng& rng) {
  double sum = 0;
  size_t count = 0;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const std::vector<double>& runs = tasks[rng.below(tasks.size())];
    for (size_t k = 0; k < runs.size(); ++k) {
      sum += runs[rng.below(runs.size())];
    }
    count += runs.size();
  }
  return sum / static_cast<double>(count);
}

// The middle 90% of the mean.
std::pair<double, double> bootstrap(const ByTask& tasks, size_t budget) {
  Rng rng(mix_seed({hash_text("bootstrap"), uint64_t(budget)}));
  std::vector<double> means;
  means.reserve(kResamples);
  for (int i = 0; i < kResamples; ++i) {
    means.push_back(resampled_mean(tasks, rng));
  }
  return {quantile_of(means, 0.05), quantile_of(means, 0.95)};
}

// Place of `mine` among `all` (itself included).
double rank_among(double mine, std::span<const double> all) {
  int better = 0;
  int equal = 0;
  for (const double other : all) {
    if (other < mine) ++better;
    if (other == mine) ++equal;
  }
  return better + (equal + 1) / 2.0;
}

class Summary {
 public:
  Summary(const std::vector<BenchmarkRun>& runs, const Worlds& worlds,
          size_t contenders)
      : runs_(runs), each_(runs.size() / contenders), contenders_(contenders) {
    std::map<std::string, size_t> numbers;
    for (const auto& world : worlds) {
      task_of_world_.push_back(
          numbers.emplace(world->task(), numbers.size()).first->second);
    }
    tasks_ = numbers.size();
  }

  BudgetStatistics at_budget(size_t contender, size_t b) const {
    BudgetStatistics out;
    std::vector<double> regrets;
    std::vector<double> ranks;
    ByTask by_task(tasks_);
    ByTask differences(tasks_);
    double difference = 0;
    for (size_t i = 0; i < each_; ++i) {
      const double regret = regret_of(contender, i, b);
      regrets.push_back(regret);
      const size_t task = task_of_world_[run_of(contender, i).world];
      by_task[task].push_back(regret);
      differences[task].push_back(regret - regret_of(0, i, b));
      difference += differences[task].back();
      std::vector<double> all;
      for (size_t c = 0; c < contenders_; ++c) {
        all.push_back(regret_of(c, i, b));
      }
      ranks.push_back(rank_among(regret, all));
    }
    out.mean = mean_of(regrets);
    out.median = quantile_of(regrets, 0.5);
    out.rank = mean_of(ranks);
    out.difference = difference / static_cast<double>(each_);
    std::tie(out.low, out.high) = bootstrap(by_task, b);
    std::tie(out.difference_low, out.difference_high) =
        bootstrap(differences, b);
    return out;
  }

  void add_totals(size_t contender, ContenderStatistics& out) const {
    for (size_t i = 0; i < each_; ++i) {
      const BenchmarkRun& run = run_of(contender, i);
      out.seconds += run.seconds;
      out.trials += run.result.trials;
      out.cuts += run.result.cuts;
      out.cuts_wrong += run.result.cuts_wrong;
      out.coverage.predictions += run.coverage.predictions;
      out.coverage.inside += run.coverage.inside;
    }
    out.runs = static_cast<int>(each_);
    out.seconds /= static_cast<double>(each_);
    out.trials /= static_cast<double>(each_);
  }

 private:
  const BenchmarkRun& run_of(size_t contender, size_t i) const {
    return runs_[contender * each_ + i];
  }
  double regret_of(size_t contender, size_t i, size_t budget) const {
    return run_of(contender, i).result.regret[budget];
  }

  const std::vector<BenchmarkRun>& runs_;
  size_t each_;  // runs of one contender
  size_t contenders_;
  std::vector<size_t> task_of_world_;
  size_t tasks_ = 0;
};

}  // namespace

BudgetLabels label_budgets(const SimulationOptions& options,
                           const Worlds& worlds) {
  const int steps = worlds.front()->steps();
  const bool alike =
      std::all_of(worlds.begin(), worlds.end(),
                  [&](const auto& world) { return world->steps() == steps; });
  if (alike || !options.budgets.empty()) {
    return {budgets_of(options, steps), "steps"};
  }
  return {budgets_of(options, 1), "trainings"};
}

std::vector<ContenderStatistics> summarise(
    const std::vector<BenchmarkRun>& runs, const Worlds& worlds,
    const std::vector<Contender>& contenders,
    const std::vector<int64_t>& budgets) {
  DTUNE_CHECK(!contenders.empty() && !runs.empty());
  const Summary summary(runs, worlds, contenders.size());
  std::vector<ContenderStatistics> all;
  for (size_t c = 0; c < contenders.size(); ++c) {
    ContenderStatistics out;
    out.contender = contenders[c];
    for (size_t b = 0; b < budgets.size(); ++b) {
      BudgetStatistics at = summary.at_budget(c, b);
      at.budget = budgets[b];
      out.budgets.push_back(at);
    }
    summary.add_totals(c, out);
    all.push_back(std::move(out));
  }
  return all;
}

}  // namespace dtune
