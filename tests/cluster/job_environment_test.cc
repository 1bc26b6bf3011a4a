#include "dtune/cluster/job_environment.h"

#include <map>
#include <string>

#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"

using namespace dtune;  // NOLINT: a test

namespace {

using Variables = std::map<std::string, std::string>;

JobEnvironment job_of(const Variables& variables,
                      const std::string& resources = "/nowhere") {
  return read_job_environment(
      [&variables](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      resources);
}

// As Slurm 22.05 sets them in a step of four nodes.
Variables slurm_step() {
  return {{"SLURM_JOB_ID", "17"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_PROCID", "2"},
          {"SLURM_LOCALID", "0"},
          {"SLURM_NODEID", "2"},
          {"SLURM_STEP_NUM_TASKS", "4"},
          {"SLURM_CPUS_ON_NODE", "8"},
          {"SLURM_STEP_NODELIST", "n[1-4]"},
          {"SLURM_STEP_TASKS_PER_NODE", "1(x4)"},
          {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.9"}};
}

}  // namespace

TEST_CASE("no engine: one process, which coordinates") {
  const JobEnvironment job = job_of({{"HOSTNAME", "desk"}});
  CHECK_FALSE(job.inside_engine());
  CHECK_FALSE(job.symmetric());
  CHECK(job.rank == 0);
}

TEST_CASE(
    "a step of Slurm has ranks, and the first host of its list is the "
    "head") {
  const JobEnvironment job = job_of(slurm_step());
  CHECK(job.engine == "Slurm");
  CHECK(job.job == "17");
  CHECK(job.rank == 2);
  CHECK(job.ranks == 4);
  CHECK(job.symmetric());
  CHECK(job.head == "n1");  // not where it was submitted
  CHECK(job.cores == 8);
  CHECK(job.ends_ms == 0);
}

TEST_CASE("tasks of Slurm share the cores of their node") {
  Variables step = slurm_step();
  step["SLURM_STEP_TASKS_PER_NODE"] = "2(x2),4,1";
  CHECK(job_of(step).local_ranks == 4);
  CHECK(job_of(step).cores == 2);
  step["SLURM_CPUS_PER_TASK"] = "3";
  CHECK(job_of(step).cores == 3);
  step["SLURM_JOB_END_TIME"] = "1700000000";
  CHECK(job_of(step).ends_ms == 1'700'000'000'000);
}

TEST_CASE("the batch script of a Slurm job is one process") {
  Variables batch = slurm_step();
  batch.erase("SLURM_STEP_ID");
  batch["SLURM_NTASKS"] = "4";
  batch["SLURM_PROCID"] = "0";
  const JobEnvironment job = job_of(batch);
  CHECK(job.engine == "Slurm");
  CHECK_FALSE(job.symmetric());
}

TEST_CASE("mpirun within a Slurm job is MPI") {
  Variables both = slurm_step();
  both["OMPI_COMM_WORLD_RANK"] = "3";
  both["OMPI_COMM_WORLD_SIZE"] = "4";
  both["OMPI_COMM_WORLD_LOCAL_SIZE"] = "4";
  both["OMPI_COMM_WORLD_LOCAL_RANK"] = "3";
  both["SLURM_JOB_END_TIME"] = "1700000000";
  const JobEnvironment job = job_of(both);
  CHECK(job.engine == "MPI");
  CHECK(job.rank == 3);
  CHECK(job.ranks == 4);
  CHECK(job.on_one_host());
  CHECK(job.ends_ms == 1'700'000'000'000);
  // Slurm's own plug-in for PMIx sets its rank as well.
  Variables pmix = slurm_step();
  pmix["PMIX_RANK"] = "2";
  CHECK(job_of(pmix).engine == "Slurm");
}

TEST_CASE("every engine has its line in the table of ranks") {
  struct Line {
    Variables variables;
    std::string engine;
    int rank;
    int ranks;
  };
  const Line lines[] = {
      {{{"PMIX_RANK", "1"}}, "MPI", 1, 0},
      {{{"FLUX_TASK_RANK", "1"}, {"FLUX_JOB_SIZE", "2"}}, "Flux", 1, 2},
      {{{"JOB_COMPLETION_INDEX", "3"}, {"HOSTNAME", "pod-3"}},
       "Kubernetes",
       3,
       0},
      {{{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}}, "Kubernetes", 0, 1},
      {{{"AWS_BATCH_JOB_ID", "x"},
        {"AWS_BATCH_JOB_NODE_INDEX", "2"},
        {"AWS_BATCH_JOB_NUM_NODES", "4"}},
       "AWS Batch",
       2,
       4},
      {{{"SKYPILOT_NODE_RANK", "1"},
        {"SKYPILOT_NUM_NODES", "2"},
        {"SKYPILOT_NODE_IPS", "10.0.0.1\n10.0.0.2"}},
       "SkyPilot",
       1,
       2},
      {{{"PBS_JOBID", "7.head"}, {"NCPUS", "4"}}, "PBS", 0, 1},
      {{{"LSB_JOBID", "7"}}, "LSF", 0, 1}};
  for (const Line& line : lines) {
    const JobEnvironment job = job_of(line.variables);
    CAPTURE(line.engine);
    CHECK(job.engine == line.engine);
    CHECK(job.rank == line.rank);
    CHECK(job.returns == (line.engine == "Kubernetes"));
    CHECK(job.ranks == line.ranks);
    CHECK(job.symmetric() == (line.ranks != 1 || line.rank > 0));
  }
}

TEST_CASE("SageMaker's hosts are sorted as text") {
  const TemporaryDirectory folder;
  const auto file = folder.path() / "resourceconfig.json";
  std::string hosts;
  for (int i = 1; i <= 12; ++i) {
    hosts += (hosts.empty() ? "\"algo-" : ",\"algo-") + std::to_string(i) + '"';
  }
  const auto rank_of = [&](const std::string& host) {
    write_file_atomic(
        file,
        "{\"current_host\": \"" + host + "\", \"hosts\": [" + hosts + "]}",
        false);
    return job_of({}, file.string());
  };
  CHECK(rank_of("algo-1").rank == 0);
  CHECK(rank_of("algo-10").rank == 1);
  CHECK(rank_of("algo-2").rank == 4);
  CHECK(rank_of("algo-2").head == "algo-1");
  CHECK(rank_of("algo-2").ranks == 12);
  write_file_atomic(file, "{}", false);
  CHECK_THROWS_WITH_AS(job_of({}, file.string()),
                       doctest::Contains("is not what SageMaker writes there"),
                       Error);
}

TEST_CASE("Slurm's lists of hosts are expanded") {
  const auto text = [](const std::string& list) {
    std::string out;
    for (const std::string& host : expand_hosts(list)) out += host + " ";
    return out;
  };
  CHECK(text("n1") == "n1 ");
  CHECK(text("n[1-3,07],head") == "n1 n2 n3 n07 head ");
  CHECK(text("gpu[008-011]") == "gpu008 gpu009 gpu010 gpu011 ");
  CHECK(text("r[1-2]n[1-2]") == "r1n1 r1n2 r2n1 r2n2 ");
  CHECK(text("r1-ib") == "r1-ib ");
  CHECK(text("") == "");
  CHECK(text("n[1") == "");
}
