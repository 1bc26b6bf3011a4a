// dtune bench train: throughput of several ranks.

#include <algorithm>

#include "app/command_bench.h"
#include "app/train_bench.h"
#include <fmt/format.h>

#include "dtune/base/text.h"

namespace dtune {
namespace {

double rate(const std::string& text) {
  const auto value = parse_number<double>(text);
  if (value && *value > 0 && *value <= 100) return *value;
  throw Error(ErrorKind::config,
              fmt::format("dtune bench train: --lr {}: not a learning rate "
                          "(more than 0, at most 100)",
                          text));
}

// Of the gangs that are measured: 2, 4, ... and as many as said, or these
// alone; without the single process, which is never disturbed.
std::vector<int> gang_sizes(const BenchOptions& options, int ranks) {
  if (options.exact) return {ranks};
  std::vector<int> sizes;
  for (int next = 2; next < ranks; next *= 2) sizes.push_back(next);
  if (ranks > 1) sizes.push_back(ranks);
  return sizes;
}

// A disturbance of a rank that no gang has would have no effect.
void check_rank(const char* option, const std::string& text, int member,
                const std::vector<int>& gangs) {
  const int ranks = gangs.empty() ? 0 : gangs.back();
  if (member < ranks) return;
  const std::string there =
      ranks > 1    ? fmt::format("ranks are 0 to {}", ranks - 1)
      : ranks == 1 ? std::string("the only rank is 0")
                   : std::string("one process alone is never disturbed");
  throw Error(ErrorKind::config,
              fmt::format("dtune bench train: {} {}: there is no rank {}: {} "
                          "(more: --ranks N)",
                          option, text, member, there));
}

TrainBenchOptions read_train_options(const BenchOptions& options) {
  TrainBenchOptions read;
  if (!options.model.empty()) read.model = options.model;
  const auto take = [](std::optional<uint64_t> number, int& into) {
    if (number) into = static_cast<int>(*number);
  };
  take(options.image, read.image);
  take(options.batch, read.batch);
  take(options.batches, read.batches);
  take(options.steps, read.steps);
  read.gangs = gang_sizes(options, static_cast<int>(options.ranks.value_or(2)));
  if (!options.lr.empty()) read.lr = rate(options.lr);
  read.strategies = options.strategies;
  if (read.strategies.empty()) {
    read.strategies = {"allreduce", "ps", "pipeline"};
  }
  const auto add = [&](Disturbance::Kind kind, const char* option,
                       const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const Disturbance what = parse_disturbance(kind, text);
      check_rank(option, text, what.member, read.gangs);
      read.disturbances.push_back(what);
    }
  };
  add(Disturbance::Kind::slow, "--slow", options.slow);
  add(Disturbance::Kind::spike, "--spike", options.spikes);
  add(Disturbance::Kind::kill, "--kill", options.kills);
  read.watchful = !options.unwatched;
  read.trace = options.trace;
  return read;
}

}  // namespace

int bench_train(const Console& console, const BenchOptions& options) {
  const TrainBenchOptions read = read_train_options(options);
  std::vector<TrainBenchRow> rows;
  double alone = 0;
  if (!options.exact) {
    TrainBenchOptions quiet = read;
    quiet.disturbances.clear();
    quiet.trace.clear();
    rows.push_back(measure_training(quiet, read.strategies.front(), 1, 0));
    alone = rows.front().images_per_second;
  }
  for (const int ranks : read.gangs) {
    for (const std::string& strategy : read.strategies) {
      rows.push_back(measure_training(read, strategy, ranks, alone));
    }
  }
  console.print(console.json ? train_json(read, rows) + "\n"
                             : train_table(rows));
  return kExitOk;
}

}  // namespace dtune
