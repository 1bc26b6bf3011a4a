// What the engine that started this process (Slurm, MPI, ...) says of its job:
// the one place that knows engines' environment variables.
//
// engine       rank                         ranks, and where rank 0 is
// MPI          OMPI_COMM_WORLD_RANK         OMPI_COMM_WORLD_SIZE
//              PMIX_RANK, PMI_RANK          PMI_SIZE
// Slurm        SLURM_PROCID, in a step      SLURM_STEP_NUM_TASKS,
//                                           SLURM_STEP_NODELIST
// Flux         FLUX_TASK_RANK               FLUX_JOB_SIZE
// Kubernetes   JOB_COMPLETION_INDEX         not said
// AWS Batch    AWS_BATCH_JOB_NODE_INDEX     AWS_BATCH_JOB_NUM_NODES,
//                                  AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS
// SageMaker    resourceconfig.json: the host's place among the hosts, sorted as
//              text (algo-10 comes before algo-2)
// SkyPilot     SKYPILOT_NODE_RANK           SKYPILOT_NUM_NODES,
//                                           SKYPILOT_NODE_IPS
//
// The first line that applies counts: mpirun inside a Slurm job is MPI. PBS,
// LSF and HTCondor start one process; ranks come from mpirun there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace dtune {

struct JobEnvironment {
  std::string engine;  // "Slurm", "MPI", ...; "": no engine started this
  std::string job;     // its name there, the same on all ranks; "": not said
  int rank = 0;
  int ranks = 1;       // 0: not said
  int local_rank = 0;  // among those of this host
  int local_ranks = 1;
  std::string head;     // the host of rank 0; "": not said
  int cores = 0;        // that this process was given; 0: not said
  int64_t ends_ms = 0;  // wall clock, when the engine ends it; 0: not said
  // Where this process has to leave, the engine starts it again elsewhere while
  // other jobs of the study go on.
  bool returns = false;

  // The same command was started several times: rank 0 coordinates.
  bool symmetric() const { return rank > 0 || ranks != 1; }
  // No terminal, and output that others keep: no secret is printed.
  bool inside_engine() const { return !engine.empty(); }
  bool on_one_host() const { return ranks > 0 && local_ranks == ranks; }
};

// `get`: as std::getenv. `resources`: SageMaker's file.
JobEnvironment read_job_environment(
    const std::function<const char*(const char*)>& get,
    const std::filesystem::path& resources);
// Of this process.
JobEnvironment job_environment();

// "n[1-3,07],head" -> n1, n2, n3, n07, head: Slurm's lists of hosts. What is
// written otherwise comes back as it is.
std::vector<std::string> expand_hosts(const std::string& list);

}  // namespace dtune
