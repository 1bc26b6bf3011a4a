#include "dtune/cluster/ssh_launcher.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

constexpr Duration kSettled = std::chrono::seconds(60);
constexpr int kSshFailed = 255;
constexpr int kNotFound = 127;
constexpr int kNotExecutable = 126;

bool is_plain(std::string_view text, std::string_view signs) {
  return std::all_of(text.begin(), text.end(), [signs](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           signs.find(c) != std::string_view::npos;
  });
}

bool contains(const std::string& words,
              std::initializer_list<const char*> any) {
  return std::any_of(any.begin(), any.end(), [&words](const char* text) {
    return words.find(text) != std::string::npos;
  });
}

// The line that says what went wrong, rather than those around it.
std::string last_line(const std::string& words) {
  std::string_view rest = words;
  while (!rest.empty() &&
         std::isspace(static_cast<unsigned char>(rest.back())) != 0) {
    rest.remove_suffix(1);
  }
  const size_t end = rest.rfind('\n');
  if (end != std::string_view::npos) rest.remove_prefix(end + 1);
  return rest.empty() ? "ssh said nothing" : std::string(rest);
}

struct SshWord {
  std::initializer_list<const char*> any;
  const char* remedy;
  bool lasts;
};

// OpenSSH's own words, as they have been for many versions.
const SshWord kSshWords[] = {
    {{"Could not resolve hostname", "Name or service not known"},
     "check the host's name in nodes:, or add it to ~/.ssh/config",
     true},
    {{"REMOTE HOST IDENTIFICATION HAS CHANGED"},
     "its key is another than known_hosts says; ask who runs it",
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

std::string shell_word(const std::string& text) {
  if (!text.empty() && is_plain(text, "-._/:=,@%+")) return text;
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out.push_back(c);
    }
  }
  return out + "'";
}

LaunchFailure explain_ssh(const std::string& node, const ExitStatus& status,
                          const std::string& words, bool began) {
  const std::string said = last_line(words);
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
    for (const SshWord& word : kSshWords) {
      if (contains(words, word.any)) return failure(word.remedy, word.lasts);
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
