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

namespace dtune {
namespace {

constexpr int kMostDevices = 64;

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

std::optional<std::string> visible_devices() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return {};
  return visible;
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

std::vector<int> cuda_devices() {
  std::vector<int> devices;
  for (int i = 0; i < kMostDevices; ++i) {
    if (std::filesystem::exists(fmt::format("/dev/nvidia{}", i))) {
      devices.push_back(i);
    }
  }
  const auto visible = visible_devices();
  if (!visible) return devices;
  std::vector<int> chosen;
  std::istringstream words(*visible);
  for (std::string word; std::getline(words, word, ',');) {
    char* end = nullptr;
    const long ordinal = std::strtol(word.c_str(), &end, 10);
    if (end == word.c_str() || ordinal < 0) break;  // as CUDA does
    chosen.push_back(static_cast<int>(ordinal));
  }
  return devices.empty() ? devices : chosen;
}

bool built_with_cuda() {
#ifdef DTUNE_WITH_CUDA
  return true;
#else
  return false;
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

SlotPlan plan_slots(const Recipe& recipe) {
  SlotPlan plan;
  plan.threads = std::max(recipe.resources.threads_per_slot, 1);
  std::vector<int> devices;
  const std::string& device = recipe.train.device;
  if (!recipe.command && built_with_cuda() && device != "cpu") {
    devices = cuda_devices();
  }
  if (device.starts_with("cuda:") && !devices.empty()) {
    devices = {std::atoi(device.c_str() + 5)};
  }
  const int natural = devices.empty()
                          ? std::max(usable_cores() / plan.threads, 1)
                          : static_cast<int>(devices.size());
  plan.slots = slots_of_local_node(recipe.nodes);
  if (plan.slots == 0) plan.slots = recipe.resources.slots;
  if (plan.slots == 0) plan.slots = with_servers(recipe.parallel, natural);
  for (int slot = 0; slot < plan.slots && !devices.empty(); ++slot) {
    plan.devices.push_back(devices[size_t(slot) % devices.size()]);
  }
  return plan;
}

}  // namespace dtune
