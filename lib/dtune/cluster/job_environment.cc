#include "dtune/cluster/job_environment.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/base/json.h"
#include "dtune/base/text.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxResources = uint64_t{1} << 20;

// Reads variables, absent ones as such.
class Variables {
 public:
  explicit Variables(const std::function<const char*(const char*)>& get)
      : get_(get) {}

  std::string text(const char* name) const {
    const char* value = get_(name);
    return value == nullptr ? "" : value;
  }
  // What is no number counts as absent.
  std::optional<int64_t> number(const char* name) const {
    return parse_number<int64_t>(text(name));
  }
  int count(const char* name, int otherwise) const {
    const int64_t value = number(name).value_or(otherwise);
    return static_cast<int>(std::clamp<int64_t>(value, 0, 1 << 20));
  }

 private:
  const std::function<const char*(const char*)>& get_;
};

// "2(x3),1" -> the count of node `index`; 1 where that is not said.
int tasks_of_node(const std::string& list, int index) {
  int at = 0;
  for (const std::string& item : split_list(list)) {
    const size_t times = item.find("(x");
    at += times == std::string::npos ? 1 : std::atoi(item.c_str() + times + 2);
    if (index < at) return std::max(std::atoi(item.c_str()), 1);
  }
  return 1;
}

bool read_mpi(const Variables& in, JobEnvironment& job) {
  for (const char* rank : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    // Slurm's own step has a line of its own; its plug-ins set these as well.
    const bool open_mpi = rank[0] == 'O';
    if (!in.number(rank)) continue;
    if (!open_mpi && in.number("SLURM_STEP_ID")) continue;
    job.engine = "MPI";
    job.rank = in.count(rank, 0);
    job.ranks = in.count(open_mpi ? "OMPI_COMM_WORLD_SIZE" : "PMI_SIZE", 0);
    job.local_rank = in.count("OMPI_COMM_WORLD_LOCAL_RANK", 0);
    job.local_ranks = in.count("OMPI_COMM_WORLD_LOCAL_SIZE", 1);
    job.job = in.text("PMIX_NAMESPACE");
    return true;
  }
  return false;
}

// The batch script of a job is one process, whatever the job's tasks are.
void read_slurm_step(const Variables& in, JobEnvironment& job) {
  if (!in.number("SLURM_STEP_ID")) return;
  job.rank = in.count("SLURM_PROCID", 0);
  job.ranks = in.count("SLURM_STEP_NUM_TASKS", 1);
  job.local_rank = in.count("SLURM_LOCALID", 0);
  job.local_ranks = tasks_of_node(in.text("SLURM_STEP_TASKS_PER_NODE"),
                                  in.count("SLURM_NODEID", 0));
  const auto hosts = expand_hosts(in.text("SLURM_STEP_NODELIST"));
  if (!hosts.empty()) job.head = hosts.front();
}

bool read_slurm(const Variables& in, JobEnvironment& job) {
  if (in.text("SLURM_JOB_ID").empty()) return false;
  job.engine = "Slurm";
  job.job = in.text("SLURM_JOB_ID");
  read_slurm_step(in, job);
  const int on_node = in.count("SLURM_CPUS_ON_NODE", 0);
  job.cores = in.count("SLURM_CPUS_PER_TASK", 0);
  if (job.cores == 0 && on_node > 0) {
    job.cores = std::max(on_node / std::max(job.local_ranks, 1), 1);
  }
  job.ends_ms = in.number("SLURM_JOB_END_TIME").value_or(0) * 1000;
  return true;
}

bool read_flux(const Variables& in, JobEnvironment& job) {
  if (!in.number("FLUX_TASK_RANK")) return false;
  job.engine = "Flux";
  job.job = in.text("FLUX_JOB_ID");
  job.rank = in.count("FLUX_TASK_RANK", 0);
  job.ranks = in.count("FLUX_JOB_SIZE", 0);
  job.local_rank = in.count("FLUX_TASK_LOCAL_ID", 0);
  return true;
}

// An Indexed Job, or a pod of any kind.
bool read_kubernetes(const Variables& in, JobEnvironment& job) {
  if (in.text("KUBERNETES_SERVICE_HOST").empty() &&
      !in.number("JOB_COMPLETION_INDEX")) {
    return false;
  }
  job.engine = "Kubernetes";
  job.returns = true;
  job.job = in.text("HOSTNAME");
  if (!in.number("JOB_COMPLETION_INDEX")) return true;
  job.rank = in.count("JOB_COMPLETION_INDEX", 0);
  job.ranks = 0;
  return true;
}

bool read_batch(const Variables& in, JobEnvironment& job) {
  if (in.text("AWS_BATCH_JOB_ID").empty()) return false;
  job.engine = "AWS Batch";
  job.job = in.text("AWS_BATCH_JOB_ID");
  if (!in.number("AWS_BATCH_JOB_NODE_INDEX")) return true;
  job.rank = in.count("AWS_BATCH_JOB_NODE_INDEX", 0);
  job.ranks = in.count("AWS_BATCH_JOB_NUM_NODES", 0);
  job.head = in.text("AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS");
  return true;
}

bool read_skypilot(const Variables& in, JobEnvironment& job) {
  if (!in.number("SKYPILOT_NODE_RANK")) return false;
  job.engine = "SkyPilot";
  job.job = in.text("SKYPILOT_TASK_ID");
  job.rank = in.count("SKYPILOT_NODE_RANK", 0);
  job.ranks = in.count("SKYPILOT_NUM_NODES", 0);
  const std::string addresses = in.text("SKYPILOT_NODE_IPS");
  job.head = addresses.substr(0, addresses.find('\n'));
  return true;
}

// {"current_host": "algo-2", "hosts": ["algo-1", "algo-2"]}
bool read_sagemaker(const Variables& in, const fs::path& resources,
                    JobEnvironment& job) {
  std::error_code error;
  if (!fs::exists(resources, error)) return false;
  try {
    const auto json = parse_json(read_file(resources, kMaxResources));
    std::vector<std::string> hosts = json.at("hosts");
    const std::string own = json.at("current_host");
    std::sort(hosts.begin(), hosts.end());
    const auto place = std::find(hosts.begin(), hosts.end(), own);
    if (place == hosts.end()) return false;
    job.rank = static_cast<int>(place - hosts.begin());
    job.ranks = static_cast<int>(hosts.size());
    job.head = hosts.front();
  } catch (const nlohmann::json::exception& e) {
    throw Error(ErrorKind::config,
                fmt::format("{}: is not what SageMaker writes there: {}",
                            resources.string(), e.what()));
  }
  job.engine = "SageMaker";
  job.job = in.text("TRAINING_JOB_NAME");
  return true;
}

// One process each; what starts several is one of those above.
bool read_batch_system(const Variables& in, JobEnvironment& job) {
  struct System {
    const char* name;
    const char* id;
    const char* cores;
  };
  for (const System& system :
       {System{"PBS", "PBS_JOBID", "NCPUS"},
        System{"LSF", "LSB_JOBID", "LSB_DJOB_NUMPROC"},
        System{"Flux", "FLUX_JOB_ID", ""},
        System{"HTCondor", "_CONDOR_JOB_AD", "_CONDOR_CPUS"}}) {
    if (in.text(system.id).empty()) continue;
    job.engine = system.name;
    job.job = in.text(system.id);
    job.cores = in.count(system.cores, 0);
    return true;
  }
  return false;
}

// Of "n[1-3,07]", what is before, in and after the brackets.
struct HostPattern {
  std::string before;
  std::string inside;
  std::string after;
};

void expand_pattern(const HostPattern& pattern, std::vector<std::string>& out) {
  constexpr int kMostHosts = 1 << 16;
  for (const std::string& range : split_list(pattern.inside)) {
    const size_t dash = std::min(range.find('-'), range.size());
    const std::string first = range.substr(0, dash);
    const int low = std::atoi(first.c_str());
    const int high =
        dash == range.size() ? low : std::atoi(range.c_str() + dash + 1);
    for (int i = low; i <= high && i - low < kMostHosts; ++i) {
      const std::string name = fmt::format("{}{:0{}}{}", pattern.before, i,
                                           first.size(), pattern.after);
      for (std::string& one : expand_hosts(name)) out.push_back(one);
    }
  }
}

void expand_item(const std::string& item, std::vector<std::string>& out) {
  const size_t open = item.find('[');
  const size_t close = item.find(']', open);
  if (open == std::string::npos || close == std::string::npos) {
    if (!item.empty()) out.push_back(item);
    return;
  }
  expand_pattern({item.substr(0, open), item.substr(open + 1, close - open - 1),
                  item.substr(close + 1)},
                 out);
}

}  // namespace

std::vector<std::string> expand_hosts(const std::string& list) {
  std::vector<std::string> out;
  std::string item;
  int depth = 0;
  for (const char c : list + ",") {
    if (c == ',' && depth == 0) {
      expand_item(item, out);
      item.clear();
      continue;
    }
    depth += (c == '[' ? 1 : 0) - (c == ']' ? 1 : 0);
    item.push_back(c);
  }
  return out;
}

JobEnvironment read_job_environment(
    const std::function<const char*(const char*)>& get,
    const fs::path& resources) {
  const Variables in(get);
  JobEnvironment job;
  const bool mpi = read_mpi(in, job);
  // mpirun within a job: its ranks, the job's end.
  JobEnvironment outer;
  if (mpi) {
    if (read_slurm(in, outer)) job.ends_ms = outer.ends_ms;
    return job;
  }
  if (read_sagemaker(in, resources, job) || read_batch(in, job) ||
      read_skypilot(in, job) || read_slurm(in, job) || read_flux(in, job) ||
      read_kubernetes(in, job) || read_batch_system(in, job)) {
    return job;
  }
  return {};
}

JobEnvironment job_environment() {
  return read_job_environment(
      [](const char* name) { return std::getenv(name); },
      "/opt/ml/input/config/resourceconfig.json");
}

}  // namespace dtune
