// dtune bench: measure this machine.

#include "app/command_bench.h"

#include <memory>

#include "app/command.h"
#include <fmt/format.h>

#include "dtune/base/suggest.h"

namespace dtune {
namespace {

struct Benchmark {
  const char* name;
  int (*run)(const Console&, const BenchOptions&);
};

constexpr Benchmark kBenchmarks[] = {
    {"comm", bench_comm},
    {"train", bench_train},
};

std::vector<std::string> benchmark_names() {
  std::vector<std::string> names;
  for (const Benchmark& benchmark : kBenchmarks) {
    names.emplace_back(benchmark.name);
  }
  return names;
}

int run_bench(const Console& console, const BenchOptions& options) {
  for (const Benchmark& benchmark : kBenchmarks) {
    if (options.what == benchmark.name) return benchmark.run(console, options);
  }
  throw Error(
      ErrorKind::config,
      fmt::format("dtune bench: cannot measure '{}'{} (see dtune bench "
                  "--help)",
                  options.what, did_you_mean(options.what, benchmark_names())));
}

void declare_train_options(Arguments& arguments, BenchOptions& options) {
  arguments.option("--model", options.model, "ARCH",
                   "train: of a recipe's model.arch (default resnet50)");
  arguments.option("--image", options.image, "PIXELS",
                   "train: height and width (default 32)", {1, 1024});
  arguments.option("--batch", options.batch, "N",
                   "train: images of a batch, for each rank (default 32)",
                   {1, 65'536});
  arguments.option("--batches", options.batches, "N",
                   "train: of a step, after one step to warm up (default 10)",
                   {1, 100'000});
  arguments.option("--steps", options.steps, "N",
                   "train: that count, each with its training loss in --json "
                   "(default 1)",
                   {1, 1000});
  arguments.option("--lr", options.lr, "RATE",
                   "train: learning rate, for training losses in --json "
                   "(default 0.003)");
  arguments.option("--strategy", options.strategies, "NAME",
                   "train: allreduce, allreduce-later (no overlap), ps, "
                   "ps-ssp, ps-async, pipeline, gpipe; may be given several "
                   "times (default: allreduce, ps, pipeline)");
  arguments.option("--slow", options.slow, "RANK:FACTOR",
                   "train: stop a rank again and again, so that it is that "
                   "many times slower");
  arguments.option("--spike", options.spikes, "RANK:EVERY:SECONDS",
                   "train: stop a rank for some seconds now and then");
  arguments.option("--kill", options.kills, "RANK:SECONDS",
                   "train: kill a rank after some seconds");
  arguments.flag("--unwatched", options.unwatched,
                 "train: plain synchronous training (stragglers: off)");
  arguments.option("--trace", options.trace, "FILE",
                   "train: what the ranks did when, for Perfetto (of the last "
                   "strategy)",
                   Complete::file);
}

}  // namespace

Action declare_bench(Arguments& arguments) {
  auto options = std::make_shared<BenchOptions>();
  arguments.describe(
      "comm: latency and bandwidth between processes of this machine, over "
      "ZeroMQ, ZeroMQ with CURVE and Gloo (transfers and sums), in the columns "
      "of nccl-tests: time of one operation, bytes by time (algbw), what that "
      "asks of each link (busbw), in 1e9 bytes a second, and elements that "
      "arrived wrong. Beside each power of two a little less and "
      "more.\n\ntrain: "
      "images/s of a network on synthetic images, by one process and by gangs "
      "of 2, 4, ..., N ranks in every strategy; scaling is images/s over ranks "
      "times those of one process. Where the ranks' time goes: input, forward, "
      "backward, reduction that nothing hid (exposed), slower ranks (waiting), "
      "optimizer, and what remains.");
  arguments.positional("WHAT", options->what, "comm, train", Complete::words,
                       true, benchmark_names());
  arguments.option("--from", options->from, "BYTES",
                   "comm: smallest size, as 8, 4K or 1M (default 8)");
  arguments.option("--to", options->to, "BYTES",
                   "comm: largest size (default 128M)");
  arguments.option("--iterations", options->iterations, "N",
                   "comm: of each size, fewer where one is slow (default 20)",
                   {1, 1'000'000});
  arguments.option("--transport", options->transports, "NAME",
                   "comm: only this one; may be given several times");
  arguments.option("--ranks", options->ranks, "N",
                   "comm: processes of a sum; train: ranks at most (default "
                   "2)",
                   {1, 64});
  arguments.flag("--exact", options->exact,
                 "comm: powers of two only; train: that many ranks only");
  declare_train_options(arguments, *options);
  arguments.json();
  arguments.example("dtune bench comm", "everything, some minutes");
  arguments.example("dtune bench comm --transport gloo-sum --ranks 4 --to 4M",
                    "sums of up to 4 MiB by 4 processes");
  arguments.example("dtune bench train --model cnn-small --image 28 --ranks 4",
                    "the throughput of 2 and 4 ranks");
  arguments.example("dtune bench train --model cnn-small --ranks 4 --slow 3:4",
                    "the same with one rank four times slower");
  return [options](const Console& console) {
    return run_bench(console, *options);
  };
}

}  // namespace dtune
