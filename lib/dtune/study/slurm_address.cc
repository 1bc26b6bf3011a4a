#include "dtune/study/slurm_address.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace dtune {
namespace {

constexpr int kMostAgents = 1000;
constexpr int kMostCpus = 4096;

const std::array<std::string, 4> kOwnKeys = {"max", "time", "idle", "poll"};

const std::array<std::string, 14> kSlurmKeys = {
    "max",         "time",     "idle",    "poll",    "gres",
    "cpus",        "mem",      "qos",     "account", "constraint",
    "reservation", "nodelist", "exclude", "gpus"};

}  // namespace

std::span<const std::string> slurm_keys() { return kSlurmKeys; }

void check_slurm_address(const EngineAddress& address) {
  check_engine_keys(address, slurm_keys());
  slurm_max(address);
  slurm_idle(address);
  slurm_poll(address);
  slurm_time(address);
  engine_number(address, "cpus", 1, 1, kMostCpus);
}

int slurm_max(const EngineAddress& address) {
  return engine_number(address, "max", 1, 1, kMostAgents);
}

Duration slurm_idle(const EngineAddress& address) {
  return engine_duration(address, "idle", "2m");
}

Duration slurm_poll(const EngineAddress& address) {
  return engine_duration(address, "poll", "30s");
}

Duration slurm_time(const EngineAddress& address) {
  return engine_duration(address, "time", "0");
}

std::vector<std::string> sbatch_options(const EngineAddress& address) {
  std::vector<std::string> out;
  if (!address.place.empty()) out.push_back("--partition=" + address.place);
  if (const Duration time = slurm_time(address); time.count() > 0) {
    const auto minutes = std::chrono::ceil<std::chrono::minutes>(time).count();
    out.push_back(fmt::format("--time={}", minutes));
  }
  for (const auto& [key, value] : address.values) {
    if (std::ranges::find(kOwnKeys, key) != kOwnKeys.end()) continue;
    out.push_back(
        fmt::format("--{}={}", key == "cpus" ? "cpus-per-task" : key, value));
  }
  return out;
}

}  // namespace dtune
