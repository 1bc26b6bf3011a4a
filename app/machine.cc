#include "app/machine.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <sched.h>

#include "dtune/base/error.h"
#include "dtune/cluster/job_environment.h"
#include "dtune/study/engine_address.h"
#include "dtune/study/slots.h"

namespace dtune {
namespace {

std::optional<std::string> first_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (file >> word) return word;
  return {};
}

std::optional<double> number_in(const std::string& path) {
  const auto word = first_word(path);
  if (!word) return {};
  char* end = nullptr;
  const double number = std::strtod(word->c_str(), &end);
  if (end == word->c_str()) return {};
  return number;
}

// Cores that the cgroup's quota amounts to; infinite without one.
double quota_cores() {
  std::ifstream unified("/sys/fs/cgroup/cpu.max");  // "200000 100000"
  double quota = 0;
  double period = 0;
  if (unified >> quota >> period && period > 0) return quota / period;
  const auto old_quota = number_in("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  const auto old_period = number_in("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (old_quota && old_period && *old_quota > 0 && *old_period > 0) {
    return *old_quota / *old_period;
  }
  return HUGE_VAL;
}

// Bytes of "MemAvailable:" and the like; 0: not there.
uint64_t meminfo(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    uint64_t kilobytes = 0;
    if (words >> name >> kilobytes && name == key) return kilobytes * 1024;
  }
  return 0;
}

// Without task affinity an engine's process sees all cores of the machine, of
// which it was given some; ranks of one machine share what is there.
int cores_of_job(int cores) {
  const JobEnvironment job = job_environment();
  if (job.cores > 0) return job.cores;
  const bool bound =
      cores < static_cast<int>(std::thread::hardware_concurrency());
  return bound ? cores : cores / std::max(job.local_ranks, 1);
}

}  // namespace

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (::sched_getaffinity(0, sizeof set, &set) == 0) cores = CPU_COUNT(&set);
  const double quota = quota_cores();
  if (quota < cores) cores = static_cast<int>(quota);
  return std::max(std::min(cores, cores_of_job(cores)), 1);
}

MemorySize usable_memory() {
  MemorySize memory{meminfo("MemTotal:"), meminfo("MemAvailable:")};
  struct Limit {
    const char* most;
    const char* used;
  };
  for (const Limit& limit :
       {Limit{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
        Limit{"/sys/fs/cgroup/memory/memory.limit_in_bytes",
              "/sys/fs/cgroup/memory/memory.usage_in_bytes"}}) {
    const auto most = number_in(limit.most);
    if (!most || *most <= 0 || *most >= double(memory.total)) continue;
    memory.total = static_cast<uint64_t>(*most);
    const double used = number_in(limit.used).value_or(0);
    memory.available = std::min(
        memory.available, static_cast<uint64_t>(std::max(*most - used, 0.0)));
  }
  return memory;
}

TorchBuild torch_build() {
#ifdef DTUNE_WITH_CUDA
  return {.with_cuda = true, .cuda = DTUNE_WITH_CUDA};
#else
  return {};
#endif
}

std::string own_program() {
  const std::string link = "/proc/self/exe";
  std::error_code error;
  const std::filesystem::path target =
      std::filesystem::read_symlink(link, error);
  // A program replaced meanwhile (an upgrade) can still be run by its link.
  return std::filesystem::exists(target, error) ? target.string() : link;
}

namespace {

// What only sums up gradients needs no core of its own: parameter servers get
// slots beside those that compute.
int with_servers(const ParallelSpec& parallel, int slots) {
  const int servers = gang_members(parallel) - parallel.ranks;
  return slots + servers * (slots / std::max(parallel.ranks, 1));
}

// "local slots=N"; 0: not said. The first counts, as in Nodes.
int slots_of_local_node(const std::vector<NodeSpec>& nodes) {
  const auto local = std::find_if(nodes.begin(), nodes.end(), is_local);
  return local == nodes.end() ? 0 : local->slots;
}

}  // namespace

bool is_local(const NodeSpec& node) { return node.address == "local"; }

bool is_elastic(const NodeSpec& node) {
  return is_engine_address(node.address) && !node.address.starts_with("ssh://");
}

bool has_remote_nodes(const std::vector<NodeSpec>& nodes) {
  return !std::all_of(nodes.begin(), nodes.end(), is_local);
}

void check_gang_fits(const Recipe& recipe, const SlotPlan& plan) {
  const int wanted = gang_members(recipe.parallel);
  if (recipe.parallel.mode == ParallelMode::none ||
      has_remote_nodes(recipe.nodes) || wanted <= plan.slots) {
    return;
  }
  const std::string more = slots_of_local_node(recipe.nodes) > 0
                               ? "nodes: local slots="
                               : "resources.slots: ";
  throw Error(
      ErrorKind::config,
      fmt::format("parallel: a trial takes {} slots, this machine has {} "
                  "(fewer ranks, more nodes, or {}{} to run several ranks on "
                  "a core)",
                  wanted, plan.slots, more, wanted));
}

namespace {

// "cuda" and "auto": all.
std::vector<Gpu> wanted_of(const std::string& device, std::vector<Gpu> gpus) {
  constexpr std::string_view kNumbered = "cuda:";
  if (!device.starts_with(kNumbered)) return gpus;
  const auto ordinal =
      static_cast<size_t>(std::atoi(device.c_str() + kNumbered.size()));
  if (ordinal >= gpus.size()) return {};
  return {std::move(gpus[ordinal])};
}

std::string why_none(size_t gpus, const std::string& why) {
  if (!why.empty()) return why;
  if (gpus == 0) return "this machine has no GPU";
  return fmt::format("this machine has {} GPU{}", gpus,
                     gpus == 1 ? "" : "s, numbered from 0");
}

void choose_gpus(const Recipe& recipe, SlotPlan& plan) {
  const std::string& device = recipe.train.device;
  if (recipe.command || device == "cpu") return;
  Gpus found = find_gpus();
  const size_t count = found.usable.size();
  plan.why_cpu = why_unused(found, torch_build());
  if (plan.why_cpu.empty()) {
    plan.gpus = wanted_of(device, std::move(found.usable));
  }
  if (!plan.gpus.empty() || has_remote_nodes(recipe.nodes)) return;
  const std::string why = why_none(count, plan.why_cpu);
  if (device != "auto") {
    throw Error(ErrorKind::config,
                fmt::format("train.device: '{}' is not there: {}; without one "
                            "use device: auto or cpu",
                            device, why));
  }
  if (recipe.train.precision == Precision::tf32) {
    throw Error(
        ErrorKind::config,
        fmt::format("train.precision: 'tf32' needs a GPU: {}; without one "
                    "use auto, fp32 or bf16",
                    why));
  }
}

}  // namespace

std::vector<std::string> SlotPlan::devices() const {
  std::vector<std::string> ids;
  for (const Gpu& gpu : gpus) ids.push_back(gpu.id);
  return ids;
}

int fused_wanted(const Recipe& recipe) {
  return may_fuse(recipe) ? recipe.resources.fused : 1;
}

int fused_trials(int wanted, const std::vector<Gpu>& gpus, int slots) {
  constexpr uint64_t kMost = 8;
  if (wanted > 0) return wanted;
  if (gpus.empty()) return 1;
  const auto by_memory = [](const Gpu& a, const Gpu& b) {
    return a.memory < b.memory;
  };
  const uint64_t least =
      std::min_element(gpus.begin(), gpus.end(), by_memory)->memory;
  const size_t shared = std::max(
      (static_cast<size_t>(slots) + gpus.size() - 1) / gpus.size(), size_t{1});
  return static_cast<int>(std::clamp<uint64_t>(least / shared >> 30, 1, kMost));
}

SlotPlan plan_slots(const Recipe& recipe) {
  SlotPlan plan;
  plan.threads = std::max(recipe.resources.threads_per_slot, 1);
  choose_gpus(recipe, plan);
  const int natural = plan.gpus.empty()
                          ? std::max(usable_cores() / plan.threads, 1)
                          : static_cast<int>(plan.gpus.size());
  plan.slots = slots_of_local_node(recipe.nodes);
  if (plan.slots == 0) plan.slots = recipe.resources.slots;
  if (plan.slots == 0) plan.slots = with_servers(recipe.parallel, natural);
  plan.fused = fused_trials(fused_wanted(recipe), plan.gpus, plan.slots);
  return plan;
}

}  // namespace dtune
