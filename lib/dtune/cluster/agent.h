// The agent of a node: owns its slots, starts one worker process per slot,
// passes messages between them and the coordinator, kills what hangs.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "dtune/base/clock.h"

namespace dtune {

struct AgentOptions {
  std::string endpoint;  // of the coordinator
  std::string study_id;  // marks all processes: DTUNE_STUDY=<id>
  std::string node;      // name shown to people; "": host name
  int slots = 1;
  int threads_per_slot = 1;
  std::vector<int> devices;  // CUDA ordinals, one per slot, or empty
  std::vector<std::string> worker_argv;  // program and arguments of a worker;
                                         // the agent appends its own
  Duration heartbeat{1'000'000'000};
  Duration grace{3'000'000'000};
};

// Runs until the coordinator says so, is gone for longer than a lease, or
// `stop` is set. Leaves no process behind. Returns an exit code.
int run_agent(const AgentOptions& options, const std::atomic<int>& stop);

}  // namespace dtune
