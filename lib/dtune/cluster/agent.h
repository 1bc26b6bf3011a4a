// The agent of a node: owns its slots, starts one worker process per slot,
// passes messages between them and the coordinator, kills what hangs.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/comm/curve.h"

namespace dtune {

struct AgentOptions {
  std::string endpoint;  // of the coordinator
  std::string study_id;  // marks all processes: DTUNE_STUDY=<id>; "": of the
                         // study that the coordinator runs
  // What to connect with beyond this machine (join_cluster).
  std::optional<CurveClient> curve;
  std::string node;  // name shown to people; "": host name
  int slots = 1;
  int seats = 1;  // slots that share a worker process; slots is a multiple
  int threads_per_slot = 1;  // of one worker process
  // Of the slots in turn, for CUDA_VISIBLE_DEVICES (Gpu::id); empty: slots see
  // what this process sees.
  std::vector<std::string> devices;
  std::vector<std::string> worker_argv;  // program and arguments of a worker;
                                         // the agent appends its own
  // Runs run_guard(); "--agent <name>" is appended. Empty: no guard.
  std::vector<std::string> guard_argv;
  Duration heartbeat{1'000'000'000};
  Duration grace{3'000'000'000};
  // How long to wait for the coordinator's welcome.
  Duration join_timeout{30'000'000'000};
  // How long to look for a coordinator that has gone without a word, before
  // ending. Meanwhile trials are dropped: they will be run elsewhere.
  Duration rejoin{0};
  std::string job;  // of the engine that started it; "": none did
  // How long that engine lets it run from now on; 0: not known. The coordinator
  // gives it no step that would not end before.
  Duration lifetime{0};
  // Leaves when no slot has had a trial for so long; 0: never.
  Duration idle{0};
  // Gets every line that a worker writes; called on the agent's thread. May be
  // empty: the last lines of one that crashes are reported in any case.
  std::function<void(int slot, const std::string& line)> log_line;
};

// Runs until the coordinator says so, is gone for longer than a lease (and
// `rejoin`), refuses this agent, or
// `stop` is set (1: workers may end their step's clean-up within `grace`; 2:
// at once). Leaves no process behind. Returns an exit code: ok where the run is
// over, or has nothing for it to do (`idle`); temporary where it had to leave
// (`stop`) or the coordinator is gone: a job that ends so is to be run again;
// config where it refuses, study failed where no worker could be started.
//
// Workers get, after worker_argv: --connect <endpoint> --slot <k> --seats <m>
// --threads <n>, and in their environment DTUNE_STUDY, DTUNE_AGENT, DTUNE_SLOT
// and, with devices, what train/device.h reads. Heartbeat and grace are the
// coordinator's once it has answered. Workers are killed by the kernel when the
// thread that called this ends; after a kill -9 of this process, what their
// commands started is ended by the guard.
int run_agent(const AgentOptions& options, const std::atomic<int>& stop);

// The guard of an agent, a process of its own: waits until stdin is closed,
// which is when the agent has died, and kills what is left of its workers and
// of what those have started (DTUNE_AGENT=<name> in the environment), wherever
// it has gone. An agent that ends in good order kills its guard first.
int run_guard(const std::string& agent);

}  // namespace dtune
