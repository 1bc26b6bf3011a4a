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

}  // namespace

Action declare_bench(Arguments& arguments) {
  auto options = std::make_shared<BenchOptions>();
  arguments.describe(
      "comm: latency and bandwidth between processes of this machine, over "
      "ZeroMQ, ZeroMQ with CURVE and Gloo (transfers and sums), in the columns "
      "of nccl-tests: time of one operation, bytes by time (algbw), what that "
      "asks of each link (busbw), in 1e9 bytes a second, and elements that "
      "arrived wrong. Beside each power of two a little less and more.");
  arguments.positional("WHAT", options->what, "comm", Complete::words, true,
                       benchmark_names());
  arguments.option("--from", options->from, "BYTES",
                   "comm: smallest size, as 8, 4K or 1M (default 8)");
  arguments.option("--to", options->to, "BYTES",
                   "comm: largest size (default 128M)");
  arguments.option("--iterations", options->iterations, "N",
                   "comm: of each size, fewer where one is slow (default 20)");
  arguments.option("--transport", options->transports, "NAME",
                   "comm: only this one; may be given several times");
  arguments.option("--ranks", options->ranks, "N",
                   "comm: processes of a sum (default 2)");
  arguments.flag("--exact", options->exact, "comm: powers of two only");
  arguments.flag("--json", options->json, "As JSON.");
  arguments.example("dtune bench comm", "everything, some minutes");
  arguments.example("dtune bench comm --transport gloo-sum --ranks 4 --to 4M",
                    "sums of up to 4 MiB by 4 processes");
  return [options](const Console& console) {
    return run_bench(console, *options);
  };
}

}  // namespace dtune
