// Real studies whose processes are killed, stopped, cut off and started, whose
// disk and memory are full for a while and whose clock jumps, at random
// moments.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "app/memory_group.h"
#include "app/program.h"
#include "app/small_disk.h"
#include "cluster/network.h"

#include "dtune/base/random.h"

namespace dtune {

// "command", "machines" (two, joined by CURVE; needs root and iproute2), and
// with LibTorch "cnn", "allreduce", "ps", "pipeline".
std::vector<std::string> campaign_kinds();

// One study under fire.
class Campaign {
 public:
  // `kind` as above, or the name of a recipe's file.
  Campaign(const std::string& kind, uint64_t seed);

  // Faults until `most` have met something, or the study is over.
  void run(int most);
  // What is wrong afterwards with its history, processes and files.
  std::vector<std::string> problems() const;

  // How many of which have met something.
  const std::map<std::string, int>& faults() const { return faults_; }
  int fault_count() const;

 private:
  struct Process {
    pid_t pid = 0;
    std::string role;  // coordinator, agent, far agent, worker, guard, program
  };

  RunningProgram start();
  std::vector<std::string> coordinator_words() const;
  void keep_far_agents();
  void end_far_agents();
  bool may_go_on(const Outcome& outcome);
  void wait_a_moment(const RunningProgram& program);
  bool over() const;
  bool has_model() const;

  bool strike(const RunningProgram& program);
  bool kill_all(const RunningProgram& program);
  bool end_coordinator(const RunningProgram& program, int signal);
  void kill_one(const std::string& role);
  void pause();
  void cut_connections();
  void exhaust_memory();
  void fill_disk();
  void jump_clock();
  void cut_network();
  std::vector<Process> processes() const;
  std::vector<Process> with_roles(const std::vector<std::string>& roles) const;
  const Process* pick(const std::vector<Process>& among);

  Workplace place_;
  std::string kind_;
  Rng rng_;
  SmallDisk disk_;
  MemoryGroup memory_;
  std::unique_ptr<toy::Network> network_;  // of "machines"
  std::map<std::string, std::unique_ptr<RunningProgram>> far_agents_;
  std::map<std::string, int> faults_;
  int failures_ = 0;  // runs that ended so
};

}  // namespace dtune
