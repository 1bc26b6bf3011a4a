#include "dtune/cluster/out_of_memory.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

namespace dtune {
namespace {

constexpr Duration kLookInterval = std::chrono::seconds(2);

// A line of /proc/self/cgroup, as "4:memory:/batch" (version 1) or "0::/batch"
// (version 2), to the file that counts the group's kills; "": it has none.
std::string counter_of(const std::string& line) {
  const size_t controllers = line.find(':') + 1;
  const size_t path = line.find(':', controllers) + 1;
  if (controllers == 0 || path == 0) return "";
  const std::string group = line.substr(path);
  const bool second = path == controllers + 1;
  const bool memory =
      line.compare(controllers, path - controllers, "memory:") == 0;
  if (!second && !memory) return "";
  const std::string file =
      second ? "/sys/fs/cgroup" + group + "/memory.events.local"
             : "/sys/fs/cgroup/memory" + group + "/memory.oom_control";
  return std::filesystem::exists(file) ? file : "";
}

std::string counter() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (const std::string file = counter_of(line); !file.empty()) return file;
  }
  return "/proc/vmstat";
}

// All of these files have lines "NAME NUMBER".
uint64_t kernel_kills() {
  std::ifstream in(counter());
  std::string name;
  uint64_t value = 0;
  while (in >> name >> value) {
    if (name == "oom_kill") return value;
  }
  return 0;
}

}  // namespace

OutOfMemoryKills::OutOfMemoryKills()
    : before_(kernel_kills()), last_(before_) {}

void OutOfMemoryKills::look(MonoTime now) {
  if (now < next_look_) return;
  next_look_ = now + kLookInterval;
  before_ = std::exchange(last_, kernel_kills());
}

bool OutOfMemoryKills::recent() const { return kernel_kills() > before_; }

}  // namespace dtune
