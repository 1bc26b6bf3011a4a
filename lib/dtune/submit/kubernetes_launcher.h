// Agents that Kubernetes starts, by
// `nodes: ["k8s://lab?image=reg/dtune:1&max=4"]`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dtune/cluster/elastic_launcher.h"
#include "dtune/study/kubernetes_address.h"

namespace dtune {

struct KubernetesLauncherOptions {
  EngineAddress address;
  std::string study_id;  // labels the Jobs: dtune/study
  // The job's key, read at each submission: it says the coordinator's address.
  std::filesystem::path job_key;
  std::vector<std::string> agent;  // options of its `dtune agent`
};

// What kubectl says, as "what (remedy)"; `lasts` where the user has to act.
LaunchFailure explain_kubectl(const std::string& name, const ExitStatus& status,
                              const std::string& words);

// A Job of one pod, and a Secret with the agents' part of the key, for each
// agent:
//
//   kubectl create -f - -o name            manifests through stdin
//   kubectl get pods,jobs -l dtune/study=ID -o json
//   kubectl delete job,secret -l dtune/study=ID
//
// Evicted pods come back by their Job; one that is wrong for the study (exit
// code 2) does not. No secret is in an argument or an environment.
class KubernetesLauncher final : public ElasticLauncher {
 public:
  explicit KubernetesLauncher(KubernetesLauncherOptions options,
                              const Clock& clock = system_clock());
  // Deletes the Jobs; waits up to ten seconds for that.
  ~KubernetesLauncher() override;

 private:
  EngineCommand command(Action action) override;
  std::string submitted(const std::string& words) override;
  std::vector<ListedJob> listed(const std::string& words) override;
  LaunchFailure explain(Action action, const ExitStatus& status,
                        const std::string& words) override;
  std::string manifests();

  const KubernetesLauncherOptions options_;
  const std::string label_;  // of the study
  int submitted_ = 0;        // numbers the Jobs of this process
};

}  // namespace dtune
