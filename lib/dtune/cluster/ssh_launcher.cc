#include "dtune/cluster/ssh_launcher.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

using std::chrono::seconds;

constexpr Duration kFirstPause = seconds(1);
constexpr Duration kLongestPause = seconds(60);
constexpr Duration kSettled = seconds(60);  // ran this long: a new count
constexpr size_t kLastWords = 2000;         // bytes
constexpr size_t kLongestLine = 10'000;
constexpr int kSshFailed = 255;
constexpr int kNotFound = 127;
constexpr int kNotExecutable = 126;

[[noreturn]] void no_address(const std::string& text) {
  throw Error(ErrorKind::config,
              fmt::format("'{}' is not a node (write ssh://host or "
                          "ssh://user@host:22)",
                          text));
}

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

SshAddress parse_ssh_address(const std::string& text) {
  constexpr std::string_view kScheme = "ssh://";
  if (!text.starts_with(kScheme)) no_address(text);
  std::string_view rest = std::string_view(text).substr(kScheme.size());
  SshAddress out;
  if (const size_t at = rest.find('@'); at != std::string_view::npos) {
    out.user = rest.substr(0, at);
    rest.remove_prefix(at + 1);
    if (out.user.empty()) no_address(text);
  }
  std::string_view port;
  if (rest.starts_with('[')) {  // IPv6
    const size_t end = rest.find(']');
    if (end == std::string_view::npos) no_address(text);
    out.host = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
    if (!rest.empty() && rest.front() != ':') no_address(text);
    port = rest;
  } else {
    const size_t colon = std::min(rest.find(':'), rest.size());
    out.host = rest.substr(0, colon);
    port = rest.substr(colon);
  }
  if (!port.empty()) {
    const char* end = port.data() + port.size();
    const auto [stop, error] = std::from_chars(port.data() + 1, end, out.port);
    if (error != std::errc() || stop != end || out.port < 1 ||
        out.port > 65535) {
      no_address(text);
    }
  }
  const bool plain = is_plain(out.host, "-._:%") && is_plain(out.user, "-._");
  if (out.host.empty() || !plain || out.host.front() == '-' ||
      out.user.starts_with('-')) {
    no_address(text);
  }
  return out;
}

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

SshFailure explain_ssh(const std::string& node, const ExitStatus& status,
                       const std::string& words, bool began) {
  const std::string said = last_line(words);
  const auto failure = [&](const std::string& remedy, bool lasts) {
    return SshFailure{fmt::format("node {}: {} ({})", node, said, remedy),
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

SshAgent::SshAgent(SshAgentOptions options) : options_(std::move(options)) {}

SshAgent::~SshAgent() {
  close();
  if (!child_) return;
  const MonoTime end = system_clock().now() + seconds(2);
  while (!child_->wait(std::chrono::milliseconds(50)) &&
         system_clock().now() < end) {
    read();
  }
  read();
}

void SshAgent::close() {
  if (child_) child_->stop_feeding();
  given_up_ = true;
}

void SshAgent::ensure() {
  if (child_) {
    read();
    const auto status = child_->status();
    if (!status) return;
    read();
    if (!partial_line_.empty()) take_line(std::exchange(partial_line_, {}));
    child_.reset();
    on_end(*status);
  }
  if (!given_up_ && system_clock().now() >= next_start_) start();
}

void SshAgent::start() {
  const SshAddress& address = options_.address;
  SpawnOptions spawn;
  spawn.argv = {"ssh",
                "-oBatchMode=yes",
                "-oConnectTimeout=10",
                "-oServerAliveInterval=15",
                "-oServerAliveCountMax=3",
                "-oClearAllForwardings=yes",
                "-T"};
  if (address.port != 0)
    spawn.argv.push_back(fmt::format("-p{}", address.port));
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
  began_ = false;
  mismatch_.reset();
  last_words_.clear();
  started_ = system_clock().now();
  try {
    child_ = std::make_unique<Child>(spawn);
  } catch (const Error& e) {
    const bool lasts = e.kind() == ErrorKind::config;
    fail({fmt::format("node {}: {}{}", options_.node, e.what(),
                      lasts ? " (Debian: openssh-client)" : ""),
          lasts});
  }
}

void SshAgent::read() {
  std::string text;
  child_->read_out(text);
  for (const char c : text) {
    if (c != '\n' && partial_line_.size() < kLongestLine) {
      if (c != '\r') partial_line_.push_back(c);
      continue;
    }
    take_line(std::exchange(partial_line_, {}));
  }
}

void SshAgent::take_line(const std::string& line) {
  constexpr std::string_view kName = "dtune ";
  if (options_.log) options_.log(line);
  last_words_ += line + "\n";
  if (last_words_.size() > kLastWords) {
    last_words_.erase(0, last_words_.size() - kLastWords);
  }
  // What a login's own scripts write may come before.
  if (began_ || mismatch_ || !line.starts_with(kName) ||
      line.size() == kName.size() ||
      std::isdigit(static_cast<unsigned char>(line[kName.size()])) == 0) {
    return;
  }
  if (line != options_.version) {
    mismatch_ = SshFailure{
        fmt::format("node {}: has {}, this is {} (install the same there)",
                    options_.node, line, options_.version),
        true};
    child_->signal_group(SIGTERM);
    return;
  }
  began_ = true;
  if (!problem_.empty()) {
    notices_.push_back(fmt::format("node {}: is there now", options_.node));
    problem_.clear();
  }
  child_->feed(options_.make_token() + "\n");
}

void SshAgent::on_end(const ExitStatus& status) {
  if (given_up_) return;  // close(): as it should be
  if (system_clock().now() - started_ > kSettled) failures_ = 0;
  if (mismatch_) {
    fail(*mismatch_);
  } else {
    fail(explain_ssh(options_.node, status, last_words_, began_));
  }
}

void SshAgent::fail(const SshFailure& failure) {
  // The same again is no news.
  if (failure.text != problem_) notices_.push_back(failure.text);
  problem_ = failure.text;
  if (failure.lasts) {
    given_up_ = true;
    return;
  }
  const int doublings = std::min(failures_++, 10);
  next_start_ = system_clock().now() +
                std::min(kFirstPause * (1 << doublings), kLongestPause);
}

std::vector<std::string> SshAgent::take_notices() {
  return std::exchange(notices_, {});
}

}  // namespace dtune
