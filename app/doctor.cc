#include "app/doctor.h"

#include <cstdlib>
#include <filesystem>

#include "app/machine.h"
#include <fmt/format.h>
#include <unistd.h>

#include "dtune/base/file.h"
#include "dtune/data/prepared.h"
#include "dtune/train/plugin.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kLeastMemory = 1.0 * kGiB;  // a worker takes about half
constexpr double kLeastDisk = 1.0 * kGiB;
// Of a core with an optimised BLAS; today's do 75 and more.
constexpr double kSlowGflops = 25;

Finding check_cores() {
  const int cores = usable_cores();
  return {"cores", Health::good,
          fmt::format("{} usable: {} one-thread trial{} at a time", cores,
                      cores, cores == 1 ? "" : "s"),
          ""};
}

Finding check_memory() {
  const MemorySize memory = usable_memory();
  const bool little = double(memory.available) < kLeastMemory;
  return {
      "memory", little ? Health::problem : Health::good,
      fmt::format("{:.1f} GiB, {:.1f} GiB available",
                  double(memory.total) / kGiB, double(memory.available) / kGiB),
      little ? "close other programs, or run with --slots 1" : ""};
}

Finding check_disk(const std::string& topic, const fs::path& folder) {
  const double free = double(free_bytes(folder));
  const bool little = free < kLeastDisk;
  return {topic, little ? Health::problem : Health::good,
          fmt::format("{:.1f} GiB free in {}", free / kGiB, folder.string()),
          little ? "free some space; checkpoints and data sets need it" : ""};
}

Finding check_cache() {
  const fs::path cache = cache_directory();
  std::error_code error;
  fs::create_directories(cache, error);
  const bool writable = !error && ::access(cache.c_str(), W_OK | X_OK) == 0;
  if (writable) return check_disk("cache", cache);
  return {"cache", Health::problem,
          fmt::format("{} cannot be written", cache.string()),
          "make it writable, or set XDG_CACHE_HOME to a folder that is"};
}

// What is installed decides on the remedy: a busy machine or an old processor
// is slow with the best library, too.
Finding check_blas(const EngineInfo& info) {
  Finding finding{
      "BLAS", Health::good,
      fmt::format("{}, {:.0f} GFLOP/s a core", info.blas, info.gflops_per_core),
      ""};
  if (!info.optimized_blas) {
    finding.health = Health::problem;
    finding.remedy =
        "training is up to ten times slower than it could be: apt install "
        "libopenblas0-pthread";
  } else if (info.gflops_per_core < kSlowGflops) {
    finding.health = Health::note;
    finding.remedy =
        "slower than most processors; if other programs run, try again "
        "without them";
  }
  return finding;
}

// Trials on one GPU: how they would share it.
Finding check_sharing() {
  const std::string mps =
      mps_folder([](const char* name) { return std::getenv(name); });
  if (!mps.empty()) {
    return {"GPU", Health::good,
            fmt::format("several slots can share one at the same time: CUDA's "
                        "Multi-Process Service runs ({})",
                        mps),
            ""};
  }
  return {
      "GPU", Health::good,
      "several slots on one take turns (resources.slots above the number "
      "of GPUs): for small networks use resources.fused, for programs start "
      "nvidia-cuda-mps-control -d first",
      ""};
}

// Each GPU with the slot that it is by default, and what keeps LibTorch from
// it.
void check_gpus(const EngineInfo& info, std::vector<Finding>& findings) {
  const Gpus gpus = find_gpus();
  std::string why = why_unused(gpus, torch_build());
  if (why.empty() && !gpus.usable.empty()) why = info.cuda_problem;
  for (size_t i = 0; i < gpus.usable.size(); ++i) {
    const std::string place =
        why.empty() ? fmt::format("slot {}", i) : "not used";
    findings.push_back({"GPU", why.empty() ? Health::good : Health::note,
                        place + ": " + to_string(gpus.usable[i]), ""});
  }
  if (!why.empty()) {
    // A LibTorch for the CPU may be what was wanted.
    const Health health =
        torch_build().with_cuda ? Health::problem : Health::note;
    findings.push_back({"GPU", health, "trains on the CPU", why});
  } else if (gpus.usable.empty()) {
    findings.push_back({"GPU", Health::good, "none: trains on the CPU", ""});
  } else {
    findings.push_back(check_sharing());
  }
  if (!gpus.usable.empty() && !gpus.problem.empty()) {
    findings.push_back({"GPU", Health::note, "not all are used", gpus.problem});
  }
}

// The parts that need LibTorch, in the order of what depends on what.
void check_engine(std::vector<Finding>& findings) {
  EngineInfo info;
  try {
    info = load_engine().info();
  } catch (const Error& error) {
    findings.push_back({"LibTorch", Health::problem, error.what(),
                        "install it (sh third_party/bootstrap.sh build) and "
                        "build dtune again"});
    return;
  }
  findings.push_back({"LibTorch", Health::good, info.torch_version, ""});
  findings.push_back(check_blas(info));
  check_gpus(info, findings);
}

Finding check_data(DataKind kind, const char* package) {
  const std::string name = to_string(kind);
  const fs::path path = source_path({.kind = kind});
  std::error_code error;
  if (fs::exists(path, error)) {
    return {"data", Health::good, fmt::format("{}: {}", name, path.string()),
            ""};
  }
  return {"data", Health::note, fmt::format("{}: not installed", name),
          fmt::format("only needed for recipes that use it: apt install {}, "
                      "or give data.path",
                      package)};
}

}  // namespace

const char* to_string(Health health) {
  switch (health) {
    case Health::good:
      return "ok";
    case Health::note:
      return "note";
    case Health::problem:
      return "problem";
  }
  return "problem";
}

std::vector<Finding> examine_machine() {
  std::vector<Finding> findings;
  findings.push_back(check_cores());
  findings.push_back(check_memory());
  findings.push_back(check_disk("disk", fs::current_path()));
  findings.push_back(check_cache());
  check_engine(findings);
  findings.push_back(
      check_data(DataKind::fashion_mnist, "dataset-fashion-mnist"));
  return findings;
}

}  // namespace dtune
