// Agents on other machines, started over ssh.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/cluster/child_process.h"

namespace dtune {

// "ssh://user@host:22"; user and port may be left out.
struct SshAddress {
  std::string user;
  std::string host;  // a name, a Host of ~/.ssh/config, or a numeric address
  int port = 0;      // 0: ssh's own choice
};

// Throws Error(config) where it is none: also for what ssh would take for an
// option.
SshAddress parse_ssh_address(const std::string& text);

// For a POSIX shell.
std::string shell_word(const std::string& text);

struct SshAgentOptions {
  SshAddress address;
  std::string node;               // shown to people
  std::string version;            // what `dtune --version` says here
  std::vector<std::string> argv;  // of the agent there, "agent" and on; it gets
                                  // --token-stdin in addition
  std::function<std::string()> make_token;  // a join token, one line
  // What ssh and the agent write, line by line. May be empty.
  std::function<void(const std::string& line)> log;
};

// Why an agent is not there, as ssh's end says.
struct SshFailure {
  std::string text;    // "node gpu1: ... (remedy)"
  bool lasts = false;  // trying again is no use before the user acts
};

// What the end of an ssh means, whose last lines were `words`. `began`: the
// agent's program was there and of our version.
SshFailure explain_ssh(const std::string& node, const ExitStatus& status,
                       const std::string& words, bool began);

// One node's agent:
//
//   ssh -oBatchMode=yes ... host 'dtune --version && exec dtune agent ...'
//
// The token goes to its stdin once it has said the version that is ours: never
// into an argument or an environment. stdin then stays open; the agent ends
// when it closes, so nothing is left behind on the node when this process dies,
// however it dies.
//
// Used by one thread, which has to live as long as this (see Child).
class SshAgent {
 public:
  explicit SshAgent(SshAgentOptions options);
  ~SshAgent();  // close(), then waits up to two seconds and kills the rest
  SshAgent(const SshAgent&) = delete;
  SshAgent& operator=(const SshAgent&) = delete;

  // Starts it where it does not run, reads what it says. Call often; does not
  // block. A connection that fails is tried again after a pause that doubles
  // up to a minute.
  void ensure();
  // Closes its stdin: it ends. Does not wait.
  void close();

  // Sentences for the user since the last call: why it is not there; that it is
  // back.
  std::vector<std::string> take_notices();
  // It will not be tried again; problem() says why.
  bool given_up() const { return given_up_; }
  const std::string& problem() const { return problem_; }
  const std::string& node() const { return options_.node; }

 private:
  void start();
  void read();
  void take_line(const std::string& line);
  void on_end(const ExitStatus& status);
  void fail(const SshFailure& failure);

  const SshAgentOptions options_;
  std::unique_ptr<Child> child_;
  bool began_ = false;  // it has said its version
  std::optional<SshFailure> mismatch_;
  std::string partial_line_;
  std::string last_words_;
  int failures_ = 0;  // in a row
  bool given_up_ = false;
  std::string problem_;
  std::vector<std::string> notices_;
  MonoTime started_{};
  MonoTime next_start_{};
};

}  // namespace dtune
