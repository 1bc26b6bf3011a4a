// "slurm://gpu?max=8&time=4h&gres=gpu:1": agents that Slurm starts.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/study/engine_address.h"

namespace dtune {

// `max` (agents at the same time), `idle` (an agent without a trial leaves
// after it) and `poll` (how often the queue is listed) are dtune's own; the
// other keys are options of sbatch.
std::span<const std::string> slurm_keys();
// Throws Error(config) for what slurm:// cannot have.
void check_slurm_address(const EngineAddress& address);

int slurm_max(const EngineAddress& address);
Duration slurm_idle(const EngineAddress& address);  // two minutes
Duration slurm_poll(const EngineAddress& address);  // half a minute
// `time`; 0: the partition's own limit.
Duration slurm_time(const EngineAddress& address);

// The options of sbatch that an address stands for, e.g. "--partition=gpu".
std::vector<std::string> sbatch_options(const EngineAddress& address);

}  // namespace dtune
