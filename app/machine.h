// What this machine lets us use; nothing here loads LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dtune/cluster/gpus.h"
#include "dtune/study/recipe.h"

namespace dtune {

// Cores that this process may run on: its affinity, capped by the CPU quota of
// its cgroups (versions 1 and 2) and by what its engine gave it, at least 1.
int usable_cores();

// Bytes of memory: the machine's, capped by the cgroup's limit; and what of
// that is available now.
struct MemorySize {
  uint64_t total = 0;
  uint64_t available = 0;
};
MemorySize usable_memory();

// The LibTorch that dtune was built with.
TorchBuild torch_build();

// This program's file, for starting it again as an agent or worker.
std::string own_program();

bool is_local(const NodeSpec& node);
// An engine starts and ends its agents: slurm://, ...
bool is_elastic(const NodeSpec& node);
// Whether any of them is another machine: the coordinator has to listen.
bool has_remote_nodes(const std::vector<NodeSpec>& nodes);

// Where the trials of a recipe run on this machine.
struct SlotPlan {
  int slots = 1;
  int fused = 1;          // trials of one slot
  int threads = 1;        // of one slot
  std::vector<Gpu> gpus;  // of the slots, or empty: CPU
  // With train.device auto: why a GPU that is here is not used; "": all are.
  std::string why_cpu;

  std::vector<std::string> devices() const;  // ids of the GPUs
};
// The slots of the local node, else resources.slots, else one per GPU or core
// with parameter servers on top. Throws Error(config) where train.device asks
// for a GPU that this machine cannot use, and no other node may have one.
SlotPlan plan_slots(const Recipe& recipe);

// Trials that a recipe wants fused; 0: as many as fused_trials() says.
int fused_wanted(const Recipe& recipe);
// Trials that one of `slots` slots on these GPUs trains at the same time:
// `wanted` or, where that is 0, one for each GiB of the slot's memory, up to
// eight; one without GPUs.
int fused_trials(int wanted, const std::vector<Gpu>& gpus, int slots);

// Throws Error(config) where a trial takes more slots than this machine has
// and no other node will bring any.
void check_gang_fits(const Recipe& recipe, const SlotPlan& plan);

}  // namespace dtune
