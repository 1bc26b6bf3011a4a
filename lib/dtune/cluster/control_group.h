// Groups of cgroup v2 for what a slot starts: the kernel ends all processes of
// a group at once, and none leaves it by a session, a parent or an environment
// of its own. There are groups only where this process may make them below its
// own (root as a rule; others in a unit that systemd delegates, Delegate=yes);
// elsewhere the marks in the environment find descendants (child_process.h).
#pragma once

#include <filesystem>
#include <string>

namespace dtune {

// Not thread-safe.
class ControlGroup {
 public:
  // `name`: a word that no other group of this process has.
  explicit ControlGroup(const std::string& name);
  // Ends what is in it; waits half a second at most.
  ~ControlGroup();
  ControlGroup(const ControlGroup&) = delete;
  ControlGroup& operator=(const ControlGroup&) = delete;

  // For SpawnOptions; "": there is none.
  const std::filesystem::path& folder() const { return folder_; }
  // SIGKILL to all that is in it.
  void end() const;

 private:
  std::filesystem::path folder_;
};

// The groups that a process (process_name()) of this PID namespace has left
// behind: what is in them is ended.
void end_groups_of(const std::string& process);
// Those of all processes that have ended.
void end_abandoned_groups();

}  // namespace dtune
