#include "dtune/cluster/ssh_launcher.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/text.h"

namespace dtune {
namespace {

constexpr Duration kSettled = std::chrono::seconds(60);
constexpr int kSshFailed = 255;
constexpr int kNotFound = 127;
constexpr int kNotExecutable = 126;

// OpenSSH's own words, as they have been for many versions.
const FailureWord kSshWords[] = {
    {{"Could not resolve hostname", "Name or service not known"},
     "check the host's name in nodes:, or add it to ~/.ssh/config",
     true},
    {{"REMOTE HOST IDENTIFICATION HAS CHANGED"},
     "its key differs from the one in known_hosts; ask its administrator",
     true},
    {{"Host key verification failed"},
     "connect once by hand with ssh to accept its key",
     true},
    {{"Permission denied", "Too many authentication failures",
      "No supported authentication methods"},
     "dtune never types passwords: ssh-copy-id your key there, or ssh-add it",
     true},
    {{"Connection refused"}, "is its ssh server running?", false},
    {{"timed out", "No route to host", "Network is unreachable"},
     "is it on, and reachable from here?",
     false},
};

}  // namespace

LaunchFailure explain_ssh(const std::string& node, const ExitStatus& status,
                          const std::string& words, bool began) {
  const std::string said = last_line_of(words, "ssh printed no message");
  const auto failure = [&](const std::string& remedy, bool lasts) {
    return LaunchFailure{fmt::format("node {}: {} ({})", node, said, remedy),
                         lasts};
  };
  if (!began && status.exit_code == kNotFound) {
    return failure(
        "install dtune there, where a shell without login finds it in PATH",
        true);
  }
  if (!began && status.exit_code == kNotExecutable) {
    return failure("dtune there cannot be executed", true);
  }
  if (began && status.exit_code == kExitConfig) {
    return failure("the agent there refused to start", true);
  }
  if (!began && status.exit_code == kSshFailed) {
    if (const FailureWord* word = find_failure(kSshWords, words)) {
      return failure(word->remedy, word->lasts);
    }
  }
  if (began) {
    return {fmt::format("node {}: its agent ended with {}: {} (it is started "
                        "again)",
                        node, describe(status), said),
            false};
  }
  return failure(fmt::format("ssh ended with {}", describe(status)), false);
}

SshLauncher::SshLauncher(SshLauncherOptions options, const Clock& clock)
    : ProcessLauncher(clock, kSettled), options_(std::move(options)) {}

SshLauncher::~SshLauncher() {
  close();
  finish(std::chrono::seconds(2));
}

SpawnOptions SshLauncher::command() {
  began_ = false;
  mismatch_.reset();
  const SshAddress& address = options_.address;
  SpawnOptions spawn;
  spawn.argv = {"ssh",
                "-oBatchMode=yes",
                "-oConnectTimeout=10",
                "-oServerAliveInterval=15",
                "-oServerAliveCountMax=3",
                "-oClearAllForwardings=yes",
                "-T"};
  if (address.port != 0) {
    spawn.argv.push_back(fmt::format("-p{}", address.port));
  }
  if (!address.user.empty()) spawn.argv.push_back("-l" + address.user);
  std::string command = "dtune --version && exec dtune";
  for (const std::string& word : options_.argv) {
    command += " " + shell_word(word);
  }
  spawn.argv.insert(spawn.argv.end(),
                    {"--", address.host, command + " --token-stdin"});
  spawn.death_signal = SIGTERM;
  spawn.merge = true;
  spawn.feed = true;
  return spawn;
}

void SshLauncher::on_line(const std::string& line) {
  constexpr std::string_view kName = "dtune ";
  if (options_.log) options_.log(line);
  // What a login's own scripts write may come before.
  if (began_ || mismatch_ || !line.starts_with(kName) ||
      line.size() == kName.size() ||
      std::isdigit(static_cast<unsigned char>(line[kName.size()])) == 0) {
    return;
  }
  if (line != options_.version) {
    mismatch_ = LaunchFailure{
        fmt::format("node {}: has {}, this is {} (install the same there)",
                    options_.node, line, options_.version),
        true};
    child().signal_group(SIGTERM);
    return;
  }
  began_ = true;
  succeed(fmt::format("node {}: is there now", options_.node));
  child().feed(options_.make_token() + "\n");
}

LaunchFailure SshLauncher::explain(const ExitStatus& status) {
  if (mismatch_) return *mismatch_;
  return explain_ssh(options_.node, status, last_words(), began_);
}

LaunchFailure SshLauncher::explain(const Error& error) {
  const bool lasts = error.kind() == ErrorKind::config;
  return {fmt::format("node {}: {}{}", options_.node, error.what(),
                      lasts ? " (Debian: openssh-client)" : ""),
          lasts};
}

}  // namespace dtune
