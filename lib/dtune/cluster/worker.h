// A worker process: one slot, kept warm between trials. Receives assignments
// from its agent, runs steps, reports; keeps paused trials in memory while
// there is room.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "dtune/base/clock.h"
#include "dtune/study/trial_runner.h"

namespace dtune {

struct WorkerOptions {
  std::string endpoint;  // of the agent
  int slot = 0;
  int threads = 1;
  uint64_t warm_bytes = uint64_t{1} << 30;  // of paused sessions kept
  // config's reader, passed in: the study's resolved YAML travels once, an
  // assignment carries only the point.
  std::function<TrialRecipe(const std::string& yaml, const Point& point)>
      parse_recipe;
};

// Makes the runner for an assignment's recipe (CNN or command); called once
// per kind, on first use, so that command studies never load LibTorch.
using RunnerFactory =
    std::function<std::unique_ptr<TrialRunner>(const Recipe& recipe)>;

// Runs until told to stop. Returns an exit code.
int run_worker(const WorkerOptions& options, const RunnerFactory& make_runner,
               const std::atomic<int>& stop);

// Runs any program as a trial (recipe `command:`): parameters as arguments and
// environment (DTUNE_TRIAL, DTUNE_PARAM_<NAME>, ...), `step=3
// val_accuracy=0.91` lines from its stdout, killed with all its children. A
// paused command trial stays stopped (SIGSTOP) while it is warm and is
// restarted from DTUNE_CHECKPOINT otherwise.
std::unique_ptr<TrialRunner> make_command_runner();

}  // namespace dtune
