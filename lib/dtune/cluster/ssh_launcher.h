// Agents on other machines, started over ssh.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dtune/cluster/process_launcher.h"
#include "dtune/study/node_address.h"

namespace dtune {

struct SshLauncherOptions {
  SshAddress address;
  std::string node;               // shown to people
  std::string version;            // what `dtune --version` says here
  std::vector<std::string> argv;  // of the agent there, "agent" and on; it gets
                                  // --token-stdin in addition
  std::function<std::string()> make_token;  // a join token, one line
  // What ssh and the agent write, line by line. May be empty.
  std::function<void(const std::string& line)> log;
};

// What the end of an ssh means, whose last lines were `words`: "node gpu1: ...
// (remedy)". `began`: the agent's program was there and of our version.
LaunchFailure explain_ssh(const std::string& node, const ExitStatus& status,
                          const std::string& words, bool began);

// One node's agent:
//
//   ssh -oBatchMode=yes ... host 'dtune --version && exec dtune agent ...'
//
// The token goes to its stdin once it has said the version that is ours: never
// into an argument or an environment. stdin then stays open; the agent ends
// when it closes, so nothing is left behind on the node when this process dies,
// however it dies.
class SshLauncher final : public ProcessLauncher {
 public:
  explicit SshLauncher(SshLauncherOptions options,
                       const Clock& clock = system_clock());
  // close(), then waits up to two seconds and kills what is left.
  ~SshLauncher() override;

 private:
  SpawnOptions command() override;
  void on_line(const std::string& line) override;
  LaunchFailure explain(const ExitStatus& status) override;
  LaunchFailure explain(const Error& error) override;

  const SshLauncherOptions options_;
  bool began_ = false;  // it has said its version
  std::optional<LaunchFailure> mismatch_;
};

}  // namespace dtune
