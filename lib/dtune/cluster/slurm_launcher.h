// Agents that Slurm starts: `nodes: ["slurm://gpu?max=8&time=4h&gres=gpu:1"]`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dtune/cluster/elastic_launcher.h"
#include "dtune/study/slurm_address.h"

namespace dtune {

// Words to put before one of Slurm's commands: the variables of the job that
// this process is in would change what it does (SLURM_CONF stays).
std::vector<std::string> without_slurm_variables();

// Of all jobs of agents that a study asks for.
std::string slurm_job_name(const std::string& study_id);

// Slurm's words on why a command failed, as "what (remedy)"; `lasts` where
// the user has to act.
LaunchFailure explain_slurm(const std::string& name, const ExitStatus& status,
                            const std::string& words);

struct SlurmLauncherOptions {
  EngineAddress address;
  std::string study_id;            // names the jobs: dtune-<study id>
  std::vector<std::string> agent;  // its program first
  std::filesystem::path logs;      // folder for what jobs write; shared
};

// One job for each agent:
//
//   sbatch --parsable --job-name=dtune-ID ... --wrap='exec dtune agent ...'
//   squeue -h -r -n dtune-ID -o '%A|%t|%r'
//   scancel -n dtune-ID
//
// The jobs are not requeued: an agent that was preempted has left, and another
// is asked for. They get USR2 a minute before their time is up. Agents read the
// job's key from the study's folder, which the nodes share; no secret is in an
// argument, an environment or the script.
class SlurmLauncher final : public ElasticLauncher {
 public:
  explicit SlurmLauncher(SlurmLauncherOptions options,
                         const Clock& clock = system_clock());
  // Cancels the jobs; waits up to ten seconds for that.
  ~SlurmLauncher() override;

 private:
  EngineCommand command(Action action) override;
  std::string submitted(const std::string& words) override;
  std::vector<ListedJob> listed(const std::string& words) override;
  LaunchFailure explain(Action action, const ExitStatus& status,
                        const std::string& words) override;
  std::vector<std::string> submission() const;

  const SlurmLauncherOptions options_;
};

}  // namespace dtune
