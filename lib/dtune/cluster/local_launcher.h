// This machine's agent, a child of the coordinator's process.
#pragma once

#include <string>
#include <vector>

#include "dtune/cluster/bounded_log.h"
#include "dtune/cluster/process_launcher.h"

namespace dtune {

struct LocalLauncherOptions {
  std::vector<std::string> argv;  // of the agent, its program first
  std::string study_id;
  BoundedLog* log = nullptr;  // of agent and workers; outlives the launcher
};

class LocalLauncher final : public ProcessLauncher {
 public:
  explicit LocalLauncher(LocalLauncherOptions options,
                         const Clock& clock = system_clock());
  ~LocalLauncher() override;  // kills it

  // Throws Error(study) with its last words where it ends again and again.
  void ensure() override;

 private:
  SpawnOptions command() override;
  void on_line(const std::string& line) override;
  LaunchFailure explain(const ExitStatus& status) override;
  LaunchFailure explain(const Error& error) override;

  const LocalLauncherOptions options_;
};

}  // namespace dtune
