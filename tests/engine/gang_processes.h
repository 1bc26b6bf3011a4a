// Gangs whose members are processes.
#pragma once

#include <csignal>
#include <string>
#include <vector>

#include "gang_fixture.h"
#include <sys/wait.h>
#include <unistd.h>

namespace dtune {

inline constexpr int kRanks = 3;  // of gang_assignment

// Where a member raises a signal.
struct Fault {
  int member = -1;
  int step = 0;
  double fraction = 0;
  int signal = 0;
  // Not there, but from there on in the middle of this message to other ranks,
  // after `share` of it; -1: there.
  int message = -1;
  double share = 0;
};

class Processes {
 public:
  Processes(const Workshop& shop, const Gang& gang, const std::string& name,
            int steps, const std::vector<Fault>& faults,
            const std::string& mode = "data")
      : steps_(steps), mode_(mode) {
    std::filesystem::create_directories(shop.path(name));
    for (int member = 0; member < gang.members(); ++member) {
      Fault fault;
      for (const Fault& one : faults) {
        if (one.member == member) fault = one;
      }
      start(shop, gang, name, member, fault);
    }
  }
  ~Processes() {
    for (size_t member = 0; member < pids_.size(); ++member) {
      if (pids_[member] <= 0) continue;
      ::kill(pids_[member], SIGKILL);
      ::waitpid(pids_[member], nullptr, 0);
    }
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  pid_t pid(int member) const { return pids_[static_cast<size_t>(member)]; }

  bool ended(int member) const {
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(pid(member)), &info,
             WEXITED | WNOHANG | WNOWAIT);
    return info.si_pid != 0;
  }
  // Blocks until it ends or, with WUNTRACED, is stopped.
  int wait(int member, int options = 0) {
    int status = 0;
    ::waitpid(pid(member), &status, options);
    if (!WIFSTOPPED(status)) pids_[static_cast<size_t>(member)] = 0;
    return status;
  }

 private:
  void start(const Workshop& shop, const Gang& gang, const std::string& name,
             int member, const Fault& fault) {
    const std::vector<std::string> words = {DTUNE_GANG_MEMBER,
                                            name,
                                            std::to_string(member),
                                            gang.server().local_endpoint(),
                                            shop.assignment().prepared_data,
                                            shop.path(name),
                                            std::to_string(steps_),
                                            std::to_string(fault.step),
                                            std::to_string(fault.fraction),
                                            std::to_string(fault.signal),
                                            mode_,
                                            std::to_string(fault.message),
                                            std::to_string(fault.share)};
    std::vector<char*> arguments;
    for (const std::string& word : words) {
      arguments.push_back(const_cast<char*>(word.c_str()));
    }
    arguments.push_back(nullptr);
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    pids_.push_back(pid);
  }

  int steps_;
  std::string mode_;
  std::vector<pid_t> pids_;
};

inline bool told(const std::vector<GangEvent>& events, GangEvent::Kind kind,
                 int member) {
  for (const GangEvent& event : events) {
    if (event.kind == kind && event.member == member) return true;
  }
  return false;
}

inline int exit_status(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace dtune
