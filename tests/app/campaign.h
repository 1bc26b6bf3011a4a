// Real studies whose processes are killed, stopped, cut off and started, whose
// disk is full for a while and whose clock jumps, at random moments.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "app/program.h"
#include "app/small_disk.h"

#include "dtune/base/random.h"

namespace dtune {

// "command", "cnn", "allreduce", "ps", "pipeline"; the last four need LibTorch.
std::vector<std::string> campaign_kinds();

// One study under fire.
class Campaign {
 public:
  // `kind` as above, or the name of a recipe's file.
  Campaign(const std::string& kind, uint64_t seed);

  // Faults until there were `most`, or the study is over: how many there were.
  int run(int most);
  // What is wrong afterwards with its history, processes and files.
  std::vector<std::string> problems() const;

  const std::map<std::string, int>& faults() const { return faults_; }

 private:
  struct Process {
    pid_t pid = 0;
    std::string role;  // coordinator, agent, worker, guard, program
  };

  bool over() const;
  bool strike(const RunningProgram& program);
  bool kill_one(const std::string& role);
  bool pause();
  bool cut_connections();
  bool fill_disk();
  bool jump_clock();
  std::vector<Process> processes() const;
  std::vector<Process> with_roles(const std::vector<std::string>& roles) const;
  const Process* pick(const std::vector<Process>& among);

  Workplace place_;
  std::string kind_;
  Rng rng_;
  SmallDisk disk_;
  std::map<std::string, int> faults_;
};

}  // namespace dtune
