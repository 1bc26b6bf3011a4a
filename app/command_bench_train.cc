// dtune bench train: what ranks bring.

#include <algorithm>

#include "app/command_bench.h"
#include "app/train_bench.h"
#include <fmt/format.h>

#include "dtune/base/text.h"

namespace dtune {
namespace {

constexpr uint64_t kMostTrainRanks = 64;

int number(const char* option, std::optional<uint64_t> value, int otherwise,
           uint64_t most) {
  if (!value) return otherwise;
  if (*value == 0 || *value > most) {
    throw Error(ErrorKind::config,
                fmt::format("dtune bench train: {} must be from 1 to {}",
                            option, most));
  }
  return static_cast<int>(*value);
}

double rate(const std::string& text) {
  const auto value = parse_number<double>(text);
  if (value && *value > 0 && *value <= 100) return *value;
  throw Error(ErrorKind::config,
              fmt::format("dtune bench train: --lr {}: not a learning rate "
                          "(more than 0, at most 100)",
                          text));
}

// Of the gangs that are measured: 2, 4, ... and as many as said, or these
// alone. A process alone, which nothing disturbs, is none of them.
std::vector<int> gang_sizes(const BenchOptions& options, int ranks) {
  if (options.exact) return {ranks};
  std::vector<int> sizes;
  for (int next = 2; next < ranks; next *= 2) sizes.push_back(next);
  if (ranks > 1) sizes.push_back(ranks);
  return sizes;
}

// A rank that no gang has would be left in peace without a word.
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
  read.image = number("--image", options.image, read.image, 1024);
  read.batch = number("--batch", options.batch, read.batch, 65536);
  read.batches = number("--batches", options.batches, read.batches, 100'000);
  read.steps = number("--steps", options.steps, read.steps, 1000);
  read.gangs =
      gang_sizes(options, number("--ranks", options.ranks, 2, kMostTrainRanks));
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
