// The part of child_process.h that reads /proc.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dtune/base/clock.h"
#include "dtune/base/text.h"
#include "dtune/cluster/child_process.h"
#include "dtune/cluster/control_group.h"

namespace dtune {
namespace {

// "" of a process that is gone. It may go between open and read, which a stream
// takes for a failure and an iterator over its buffer would throw.
std::string read_proc(pid_t pid, const char* name) {
  std::ifstream in(fmt::format("/proc/{}/{}", pid, name), std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

bool may_read_environment(pid_t pid) {
  return access(fmt::format("/proc/{}/environ", pid).c_str(), R_OK) == 0;
}

// A process that is just executing another program has, for a moment, memory
// but no environment: looked at again, so that none slips through. That of
// another user's process is never read.
std::string read_environment(pid_t pid) {
  for (int round = 0; round < 50; ++round) {
    std::string block = read_proc(pid, "environ");
    if (!block.empty() || resident_bytes(pid) == 0) return block;
    if (!may_read_environment(pid)) return {};
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return {};
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> pids;
  DIR* folder = opendir("/proc");
  if (folder == nullptr) return pids;
  while (const dirent* entry = readdir(folder)) {
    if (const auto pid = parse_number<pid_t>(entry->d_name)) {
      pids.push_back(*pid);
    }
  }
  closedir(folder);
  return pids;
}

// The value of NAME= in a block of zero-terminated entries, or "".
std::string entry_of(const std::string& block, const std::string& name) {
  const std::string wanted = std::string(1, '\0') + name + "=";
  const size_t at = (std::string(1, '\0') + block).find(wanted);
  if (at == std::string::npos) return "";
  const size_t begin = at + wanted.size() - 1;
  return block.substr(begin, block.find('\0', begin) - begin);
}

// The 22nd field of stat: the name before it may hold blanks and brackets.
std::string start_time_of(const std::string& stat) {
  const size_t bracket = stat.rfind(')');
  if (bracket == std::string::npos) return "";
  std::istringstream fields(stat.substr(bracket + 1));
  std::string field;
  fields >> field;
  if (field == "Z" || field == "X") return "";  // dead, not yet reaped
  for (int i = 4; i <= 22; ++i) fields >> field;
  return field;
}

bool shares_pid_namespace(pid_t pid) {
  std::error_code error;
  const auto space = [&error](const std::string& process) {
    return std::filesystem::read_symlink("/proc/" + process + "/ns/pid", error);
  };
  const auto ours = space("self");
  if (error) return true;  // a kernel without namespaces
  return space(std::to_string(pid)) == ours;
}

bool holds_all(const std::string& block,
               const std::vector<std::string>& marks) {
  return std::all_of(marks.begin(), marks.end(), [&](const std::string& mark) {
    const size_t equal = mark.find('=');
    return entry_of(block, mark.substr(0, equal)) == mark.substr(equal + 1);
  });
}

// Children of all threads of a process; empty where the kernel has no list.
std::optional<std::vector<pid_t>> children_of(const std::string& process) {
  std::vector<pid_t> pids;
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator(
           "/proc/" + process + "/task", error)) {
    std::ifstream in(thread.path() / "children");
    if (!in) return std::nullopt;
    for (pid_t pid = 0; in >> pid;) pids.push_back(pid);
  }
  if (error) return std::nullopt;
  return pids;
}

// Fields 14 to 17 of stat, in clock ticks: of the process and of its children
// that it has waited for.
uint64_t cpu_ticks(pid_t pid) {
  const std::string stat = read_proc(pid, "stat");
  const size_t bracket = stat.rfind(')');
  if (bracket == std::string::npos) return 0;
  std::istringstream fields(stat.substr(bracket + 1));
  std::string skipped;
  for (int i = 3; i <= 13; ++i) fields >> skipped;
  uint64_t sum = 0;
  uint64_t ticks = 0;
  for (int i = 14; i <= 17 && fields >> ticks; ++i) sum += ticks;
  return sum;
}

}  // namespace

std::vector<pid_t> find_marked(const std::vector<std::string>& marks) {
  std::vector<pid_t> found;
  const pid_t self = getpid();
  for (const pid_t pid : all_processes()) {
    if (pid == self) continue;
    const std::string block = read_environment(pid);
    if (!block.empty() && holds_all(block, marks)) found.push_back(pid);
  }
  return found;
}

int kill_marked(const std::vector<std::string>& marks) {
  int killed = 0;
  const auto end = system_clock().now() + std::chrono::seconds(1);
  while (true) {
    const std::vector<pid_t> found = find_marked(marks);
    for (const pid_t pid : found) {
      if (kill(pid, SIGKILL) == 0) ++killed;
      waitpid(pid, nullptr, WNOHANG);  // where it is an orphan given to us
    }
    if (found.empty() || system_clock().now() > end) return killed;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

int kill_adopted(const std::vector<std::string>& marks) {
  const auto children = children_of("self");
  // One that is just dying may be about to hand its own children down.
  const bool quiet =
      children &&
      std::none_of(children->begin(), children->end(), [&marks](pid_t pid) {
        return resident_bytes(pid) == 0 ||
               holds_all(read_environment(pid), marks);
      });
  return quiet ? 0 : kill_marked(marks);
}

int kill_orphans(const std::string& study_id) {
  end_abandoned_groups();
  int killed = 0;
  for (const pid_t pid : find_marked({"DTUNE_STUDY=" + study_id})) {
    const std::string agent = entry_of(read_environment(pid), "DTUNE_AGENT");
    if (agent.empty()) continue;  // the agent itself, or not ours to judge
    if (!shares_pid_namespace(pid) || !has_ended(agent)) continue;
    if (kill(pid, SIGKILL) == 0) ++killed;
  }
  return killed;
}

std::string process_name(pid_t pid) {
  return fmt::format("{}:{}", pid, start_time_of(read_proc(pid, "stat")));
}

bool has_ended(const std::string& name) {
  pid_t pid = 0;
  std::from_chars(name.data(), name.data() + name.size(), pid);
  if (pid <= 0) return true;
  const int file =
      open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return kill(pid, 0) != 0 && errno == ESRCH;
  std::string stat(4096, '\0');
  const ssize_t size = read(file, stat.data(), stat.size());
  const int code = errno;
  close(file);
  if (size <= 0) return size < 0 && code == ESRCH;
  stat.resize(static_cast<size_t>(size));
  return fmt::format("{}:{}", pid, start_time_of(stat)) != name;
}

void become_subreaper() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

uint64_t resident_bytes(pid_t pid) {
  std::istringstream fields(read_proc(pid, "statm"));
  uint64_t total = 0;
  uint64_t pages = 0;
  if (!(fields >> total >> pages)) return 0;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

double descendants_cpu_seconds() {
  uint64_t ticks = 0;
  std::vector<pid_t> pids = children_of("self").value_or(std::vector<pid_t>());
  while (!pids.empty()) {
    const pid_t pid = pids.back();
    pids.pop_back();
    ticks += cpu_ticks(pid);
    if (const auto more = children_of(std::to_string(pid))) {
      pids.insert(pids.end(), more->begin(), more->end());
    }
  }
  return double(ticks) / double(sysconf(_SC_CLK_TCK));
}

}  // namespace dtune
