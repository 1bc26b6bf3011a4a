// Child processes that cannot outlive their parent: own process group, killed
// by the kernel when the parent dies, exit code or signal always recorded.
#pragma once

#include <csignal>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "dtune/base/clock.h"

namespace dtune {

struct SpawnOptions {
  std::vector<std::string> argv;  // argv[0] is looked up in PATH
  std::map<std::string, std::string> environment;  // added to this process's
  std::string directory;                           // "": this process's
  std::string control_group;  // its folder (control_group.h), if it can; "": no
  // Sent by the kernel when the thread that spawned the child ends, however it
  // ends: spawn from a thread that lives as long as the child may.
  int death_signal = SIGKILL;
  bool capture = true;      // stdout and stderr come through pipes, else shared
  bool merge = false;       // stderr into the pipe of stdout
  bool feed = false;        // stdin comes from feed(); else it is /dev/null
  uint64_t data_bytes = 0;  // RLIMIT_DATA: heap and private maps; 0: none
};

struct ExitStatus {
  int exit_code = -1;  // -1: ended by a signal
  int signal = 0;      // 0: exited by itself
};

// "exit code 3" or "signal 9 (Killed)".
std::string describe(const ExitStatus& status);

// A running or ended child, in a process group of its own. Not thread-safe.
class Child {
 public:
  // Throws Error(temporary) where the system has no process left, Error(config)
  // where the program cannot be executed (names it and says why).
  explicit Child(const SpawnOptions& options);
  // Kills the group and reaps the child; waits at most two seconds.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  // Non-blocking ends of the pipes; -1 where closed or not captured.
  int out() const { return out_; }
  int err() const { return err_; }
  // Readable once the child has ended; -1 where the kernel has no such thing.
  int exit_descriptor() const { return exit_; }

  // Writes to its stdin as much as it takes now; returns how many bytes. Until
  // stop_feeding() or the end of this object (or process) its stdin stays open.
  size_t feed(std::string_view text);
  void stop_feeding();

  // Appends what is there to `text`; false once the other side is closed.
  bool read_out(std::string& text) { return read_some(out_, text); }
  bool read_err(std::string& text) { return read_some(err_, text); }

  // Empty while it runs. Does not block.
  std::optional<ExitStatus> status();
  // Likewise, but waits up to `patience`.
  std::optional<ExitStatus> wait(Duration patience);
  // To the whole group; nothing where the child has been reaped and the group
  // is gone. A stopped child is continued where the signal ends it.
  void signal_group(int signal);

 private:
  bool read_some(int& descriptor, std::string& text);

  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  int err_ = -1;
  int exit_ = -1;
  std::optional<ExitStatus> status_;
};

// Processes of this user whose environment, as it was when they were started,
// holds every one of `marks` ("NAME=value"); never this process. Reads /proc:
// some milliseconds on a machine of a few hundred processes.
std::vector<pid_t> find_marked(const std::vector<std::string>& marks);

// SIGKILLs all that find_marked finds until none is left (children made in the
// meantime included; gives up after a second). Returns how many were killed.
int kill_marked(const std::vector<std::string>& marks);

// Likewise, but first looks whether this process has any child that is marked
// or dying, and is done where it has not: after become_subreaper() the orphans
// of its children are its own. Some ten microseconds in the usual case.
int kill_adopted(const std::vector<std::string>& marks);

// SIGKILLs processes of the study whose agent (DTUNE_AGENT=<pid>:<start>) is no
// more, in this PID namespace: in others the same numbers are other processes;
// and what is in control groups of processes that are no more.
// Returns how many were killed.
int kill_orphans(const std::string& study_id);

// "<pid>:<start time>": names a process for ever, as ids are used again.
std::string process_name(pid_t pid);

// The process of that name is no more. False where that cannot be found out, as
// when this process has no descriptor left to look with.
bool has_ended(const std::string& process_name);

// Makes this process the parent of its descendants' orphans.
void become_subreaper();

// Resident bytes of a process; 0: gone.
uint64_t resident_bytes(pid_t pid);

// CPU time of all processes that descend from this one, and of those that they
// have waited for; grows while any of them computes. Reads some files of /proc
// per process.
double descendants_cpu_seconds();

}  // namespace dtune
