// A control group (version 1 or 2) that has next to no memory: the kernel kills
// what is put into it as soon as it asks for more. Needs root.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <sys/types.h>
#include <unistd.h>

namespace dtune {

class MemoryGroup {
 public:
  explicit MemoryGroup(int64_t bytes = 4096) {
    const std::filesystem::path root = "/sys/fs/cgroup";
    const bool first = std::filesystem::exists(root / "memory/cgroup.procs");
    parent_ = first ? root / "memory" : root;
    if (!first) say(root / "cgroup.subtree_control", "+memory");
    path_ = parent_ / ("dtune-test-" + std::to_string(::getpid()));
    std::error_code error;
    std::filesystem::create_directory(path_, error);
    ready_ = say(path_ / (first ? "memory.limit_in_bytes" : "memory.max"),
                 std::to_string(bytes));
  }
  ~MemoryGroup() {
    std::ifstream members(path_ / "cgroup.procs");
    for (std::string pid; members >> pid;) say(parent_ / "cgroup.procs", pid);
    ::rmdir(path_.c_str());
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  bool ready() const { return ready_; }
  // What it has by now is not counted.
  bool take(pid_t pid) const {
    return say(path_ / "cgroup.procs", std::to_string(pid));
  }

 private:
  static bool say(const std::filesystem::path& file, const std::string& text) {
    if (!std::filesystem::exists(file)) return false;
    std::ofstream out(file);
    out << text << std::flush;
    return out.good();
  }

  std::filesystem::path parent_;
  std::filesystem::path path_;
  bool ready_ = false;
};

}  // namespace dtune
