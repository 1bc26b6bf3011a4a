#include "dtune/cluster/control_group.h"

#include <cerrno>
#include <chrono>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "dtune/cluster/child_process.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

// Where cgroup v2 is mounted, and which group is there (proc_pid_mountinfo(5)).
struct Mount {
  std::string root;
  fs::path folder;
};

std::optional<Mount> find_mount() {
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    const size_t kind = line.find(" - ");
    if (kind == std::string::npos ||
        line.compare(kind + 3, 8, "cgroup2 ") != 0) {
      continue;
    }
    std::istringstream words(line);
    std::string skipped;
    std::string folder;
    Mount mount;
    words >> skipped >> skipped >> skipped >> mount.root >> folder;
    mount.folder = folder;
    return mount;
  }
  return std::nullopt;
}

// The line "0::/path" of /proc/self/cgroup; "": there is no cgroup v2.
std::string own_group() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::/")) return line.substr(3);
  }
  return "";
}

// The folder of this process's group; "": it cannot be seen.
fs::path own_folder() {
  std::string group = own_group();
  const auto mount = find_mount();
  if (!mount || group.empty()) return {};
  if (mount->root != "/") {
    if (!group.starts_with(mount->root)) return {};
    group.erase(0, mount->root.size());
  }
  return mount->folder / fs::path(group).relative_path();
}

// Of all groups of dtune in this PID namespace: in others the same numbers are
// other processes.
std::string prefix() {
  std::error_code error;
  std::string space = fs::read_symlink("/proc/self/ns/pid", error).string();
  std::erase_if(space, [](char c) { return c < '0' || c > '9'; });
  return "dtune-" + space + "-";
}

void write_word(const fs::path& file, const std::string& word) {
  std::ofstream(file) << word;
}

void kill_all(const fs::path& group) { write_word(group / "cgroup.kill", "1"); }

// Others remove groups at the same time: what is gone is left out.
std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  std::error_code gone;
  for (fs::directory_iterator entry(folder, error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (entry->is_directory(gone)) found.push_back(entry->path());
  }
  return found;
}

// A group can be removed once nothing lives in it, nor a group of a dtune that
// ran in it.
void end_and_remove(const fs::path& group) {
  constexpr int kTries = 50;
  kill_all(group);
  for (const fs::path& nested : folders_in(group)) end_and_remove(nested);
  for (int i = 0; i < kTries && ::rmdir(group.c_str()) != 0; ++i) {
    if (errno != EBUSY) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// Groups of the processes that `chosen` names.
void end_groups(const std::function<bool(const std::string&)>& chosen) {
  const fs::path folder = own_folder();
  if (folder.empty()) return;
  const std::string begin = prefix();
  for (const fs::path& group : folders_in(folder)) {
    const std::string name = group.filename().string();
    if (!name.starts_with(begin)) continue;
    const size_t end = name.find('-', begin.size());
    if (chosen(name.substr(begin.size(), end - begin.size()))) {
      end_and_remove(group);
    }
  }
}

}  // namespace

ControlGroup::ControlGroup(const std::string& name) {
  const fs::path own = own_folder();
  if (own.empty()) return;
  fs::path mine = own / (prefix() + process_name(getpid()) + "-" + name);
  if (::mkdir(mine.c_str(), 0755) != 0) return;
  const bool usable = ::access((mine / "cgroup.kill").c_str(), W_OK) == 0 &&
                      ::access((own / "cgroup.procs").c_str(), W_OK) == 0;
  if (usable) {
    folder_ = std::move(mine);
  } else {
    ::rmdir(mine.c_str());
  }
}

ControlGroup::~ControlGroup() {
  if (!folder_.empty()) end_and_remove(folder_);
}

void ControlGroup::end() const {
  if (!folder_.empty()) kill_all(folder_);
}

void end_groups_of(const std::string& process) {
  end_groups([&](const std::string& name) { return name == process; });
}

void end_abandoned_groups() {
  end_groups([](const std::string& name) { return has_ended(name); });
}

}  // namespace dtune
