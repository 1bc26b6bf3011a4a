// What our interface adds to Gloo: sums by two processes through a Collective
// (deadlines, the question who is missing) against gloo::allreduce itself,
// taken in turns. Prints rows for bench_runner.
//
// Expected: 4 MiB as Gloo to a few percent; 64 B faster than it, since small
// arrays do not go round a ring.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include <fmt/format.h>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dtune/base/file.h"
#include "dtune/comm/collective.h"
#include "dtune/comm/folder_store.h"

namespace {

using namespace dtune;  // NOLINT: a program of its own

constexpr Duration kPatience = std::chrono::seconds(60);
constexpr int kTurns = 41;

using Sum = std::function<void(std::vector<float>&)>;

std::shared_ptr<gloo::Context> raw_gloo(int rank, const std::string& folder) {
  gloo::transport::tcp::attr attr;
  attr.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(attr);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, 2);
  gloo::rendezvous::FileStore store(folder);
  context->connectFullMesh(store, device);
  return context;
}

Sum sum_of(const std::shared_ptr<gloo::Context>& context) {
  return [context](std::vector<float>& data) {
    gloo::AllreduceOptions options(context);
    options.setOutput(data.data(), data.size());
    options.setReduceFunction(
        [](void* sum, const void* a, const void* b, size_t count) {
          gloo::sum<float>(sum, a, b, count);
        });
    gloo::allreduce(options);
  };
}

double seconds_of(const Sum& sum, std::vector<float>& data, int times) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) sum(data);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
             .count() /
         times;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void compare(const char* name, size_t count, int times, double goal,
             const Sum& ours, const Sum& raw, bool print) {
  std::vector<float> data(count, 0.0F);
  std::vector<double> our_seconds;
  std::vector<double> raw_seconds;
  for (int turn = 0; turn < kTurns; ++turn) {
    raw_seconds.push_back(seconds_of(raw, data, times));
    our_seconds.push_back(seconds_of(ours, data, times));
  }
  if (!print) return;
  const double us = median(our_seconds) * 1e6;
  const double raw_us = median(raw_seconds) * 1e6;
  const double ratio = raw_us / us;
  fmt::print(R"({{"name": "{}", "ours": {:.1f}, "baseline": {:.1f}, )"
             R"("ratio": {:.3f}, "goal": {}, "ok": {}, "unit": "us", )"
             R"("detail": "2 processes on this machine; baseline is )"
             R"(gloo::allreduce; medians of {} turns of {}"}})"
             "\n",
             name, us, raw_us, ratio, goal, ratio >= goal, kTurns, times);
}

void run_rank(int rank, const std::string& folder) {
  FolderStore store(folder);
  const auto group = make_gloo_group({.rank = rank,
                                      .size = 2,
                                      .name = "ours",
                                      .address = "127.0.0.1",
                                      .connect_timeout = kPatience},
                                     store);
  const Sum ours = [&](std::vector<float>& data) {
    group->all_reduce(data, kPatience);
  };
  const Sum raw = sum_of(raw_gloo(rank, folder));
  compare("all-reduce 4 MiB through Collective", size_t{1} << 20, 3, 0.95, ours,
          raw, rank == 0);
  compare("all-reduce 64 B through Collective", 16, 20, 0.95, ours, raw,
          rank == 0);
}

}  // namespace

int main() try {
  const TemporaryDirectory folder;
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      run_rank(1, folder.path().string());
    } catch (const std::exception& e) {
      std::fprintf(stderr, "rank 1: %s\n", e.what());
      ::_exit(1);
    }
    ::_exit(0);
  }
  run_rank(0, folder.path().string());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
