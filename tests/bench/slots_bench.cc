// Trials an hour with two slots against one, and what a worker's memory is: the
// program itself, on a synthetic study that takes some seconds. Prints rows for
// bench_runner.
//
//   bench_slots   (DTUNE_BINARY is compiled in)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <sys/resource.h>

#include "dtune/base/file.h"

namespace {

namespace fs = std::filesystem;

constexpr int kTrials = 8;
constexpr int kSamples = 24000;
constexpr int kSide = 28;
constexpr int kBatch = 128;

// The same recipe for both; only the slots differ.
const char* const kRecipe = R"(study: slots-bench
data: { kind: synthetic, size: [28, 28], samples: 24000, validation: 2000 }
model: { arch: cnn-small }
train: { epochs: 2, step: epoch, batch_size: 128, lr: 0.02 }
space: { l2: { log: [1.0e-6, 1.0e-3] }, dropout: { linear: [0.0, 0.5] } }
sampler: sobol
scheduler: fifo
budget: { trials: 8 }
final: false
)";

// Seconds of a whole `dtune run`.
double run_study(const fs::path& folder, int slots) {
  const fs::path recipe = folder / "bench.yaml";
  dtune::write_file_atomic(recipe, kRecipe, false);
  const std::string command = fmt::format(
      "XDG_CACHE_HOME='{0}' '{1}' run '{2}' --slots {3} --quiet --plain "
      "--db '{0}/slots-{3}.db' >/dev/null",
      folder.string(), DTUNE_BINARY, recipe.string(), slots);
  const auto begin = std::chrono::steady_clock::now();
  const int status = std::system(command.c_str());
  const std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - begin;
  if (status != 0) {
    fmt::print(stderr, "dtune run ended with status {}\n", status);
    std::exit(1);
  }
  return taken.count();
}

// Of the largest process below this one that has ended, in MB.
double peak_megabytes() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  return double(usage.ru_maxrss) / 1024;
}

void print_row(const std::string& name, double ours, double baseline,
               double goal, const char* unit, const std::string& detail) {
  const double ratio = ours > 0 ? ours / baseline : 0;
  fmt::print(
      "{{\"name\": \"{}\", \"ours\": {:.4g}, \"baseline\": {:.4g}, \"ratio\": "
      "{:.4g}, \"goal\": {}, \"ok\": {}, \"unit\": \"{}\", \"detail\": "
      "\"{}\"}}\n",
      name, ours, baseline, ratio, goal, ratio >= goal ? "true" : "false", unit,
      detail);
  std::fflush(stdout);
}

}  // namespace

int main() {
  const dtune::TemporaryDirectory folder("dtune-slots");
  run_study(folder.path(), 1);  // prepares the data and warms the caches
  const double peak = peak_megabytes();
  double one = 1e9;
  double two = 1e9;
  for (int round = 0; round < 2; ++round) {
    fs::remove(folder.path() / "slots-1.db");
    fs::remove(folder.path() / "slots-2.db");
    one = std::min(one, run_study(folder.path(), 1));
    two = std::min(two, run_study(folder.path(), 2));
  }
  print_row("trials per hour, 2 slots against 1", kTrials * 3600 / two,
            kTrials * 3600 / one, 1.8, "trials/h",
            fmt::format("whole runs of {} trials, start included: {:.1f} s and "
                        "{:.1f} s",
                        kTrials, two, one));
  // Weights, gradients and momentum of cnn-small (421,642 numbers); images of
  // one batch as floats.
  const double data = double(kSamples) * 1.25 * kSide * kSide / 1048576;
  const double model = 3 * 421642 * 4.0 / 1048576;
  const double batch = double(kBatch) * kSide * kSide * 4 / 1048576;
  print_row("peak memory of a worker, data + 3 x model + batch as its share",
            data + model + batch, peak, 0, "MB",
            fmt::format("data {:.1f} (mapped, one copy for all slots), 3 x "
                        "model {:.1f}, batch {:.1f}; the rest is LibTorch and "
                        "activations",
                        data, model, batch));
  return 0;
}
