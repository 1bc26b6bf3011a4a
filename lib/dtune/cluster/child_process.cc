#include "dtune/cluster/child_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dtune/base/clock.h"
#include "dtune/base/error.h"

extern char** environ;  // NOLINT: POSIX's own

namespace dtune {
namespace {

struct Pipe {
  int read_end = -1;
  int write_end = -1;

  explicit Pipe(bool wanted) {
    std::array<int, 2> ends{};
    if (!wanted) return;
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw Error(ErrorKind::temporary, "pipe: " + errno_text(errno));
    }
    read_end = ends[0];
    write_end = ends[1];
  }
  ~Pipe() {
    if (read_end >= 0) close(read_end);
    if (write_end >= 0) close(write_end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  // Ends of a local socket, which unlike a pipe can be written to without a
  // SIGPIPE.
  static Pipe of_socket(bool wanted) {
    Pipe out(false);
    std::array<int, 2> ends{};
    if (!wanted) return out;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      throw Error(ErrorKind::temporary, "socketpair: " + errno_text(errno));
    }
    out.read_end = ends[0];
    out.write_end = ends[1];
    return out;
  }
  Pipe(Pipe&& other) noexcept
      : read_end(std::exchange(other.read_end, -1)),
        write_end(std::exchange(other.write_end, -1)) {}

  int take_read_end() {
    fcntl(read_end, F_SETFL, O_NONBLOCK);
    return std::exchange(read_end, -1);
  }
};

// Everything that the child needs, made before the fork: between fork and exec
// only async-signal-safe calls are allowed.
struct Prepared {
  std::vector<char*> argv;
  std::vector<std::string> environment_texts;
  std::vector<char*> environment;
  std::string members;  // the control group's file; "": none

  explicit Prepared(const SpawnOptions& options) {
    if (!options.control_group.empty()) {
      members = options.control_group + "/cgroup.procs";
    }
    for (const std::string& word : options.argv) {
      argv.push_back(const_cast<char*>(word.c_str()));
    }
    argv.push_back(nullptr);
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string_view text = *entry;
      const std::string name(text.substr(0, text.find('=')));
      if (!options.environment.contains(name)) {
        environment_texts.emplace_back(text);
      }
    }
    for (const auto& [name, value] : options.environment) {
      environment_texts.push_back(fmt::format("{}={}", name, value));
    }
    for (std::string& text : environment_texts) {
      environment.push_back(text.data());
    }
    environment.push_back(nullptr);
  }
};

void reset_signals() {
  for (int signal = 1; signal < 32; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

bool redirect(const SpawnOptions& options, int in, int out, int err) {
  if (in < 0) in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (in < 0 || dup2(in, STDIN_FILENO) < 0) return false;
  if (!options.capture) return true;
  return dup2(out, STDOUT_FILENO) >= 0 &&
         dup2(options.merge ? out : err, STDERR_FILENO) >= 0;
}

// Where that fails the child stays in its parent's.
void enter_group(const char* members) {
  const int file = open(members, O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  [[maybe_unused]] const auto n = write(file, "0", 1);  // itself
  close(file);
}

// In the child: never returns. Reports errno through `failure`.
[[noreturn]] void become(const SpawnOptions& options, const Prepared& prepared,
                         pid_t parent, int in, int out, int err, int failure) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, options.death_signal);
  if (getppid() != parent) _exit(127);  // it died before the line above
  reset_signals();
  if (!prepared.members.empty()) enter_group(prepared.members.c_str());
  bool ok = redirect(options, in, out, err);
  if (ok && !options.directory.empty()) {
    ok = chdir(options.directory.c_str()) == 0;
  }
  if (ok && options.data_bytes > 0) {
    const rlimit limit{options.data_bytes, options.data_bytes};
    ok = setrlimit(RLIMIT_DATA, &limit) == 0;
  }
  if (ok) {
    close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    execvpe(prepared.argv[0], prepared.argv.data(),
            prepared.environment.data());
  }
  const int code = errno;
  [[maybe_unused]] const auto n = write(failure, &code, sizeof code);
  _exit(127);
}

// The number of processes is at its limit for a moment: dead ones that are not
// reaped yet count.
pid_t fork_patiently() {
  constexpr int kTries = 5;
  for (int i = 0;; ++i) {
    const pid_t pid = fork();
    if (pid >= 0 || errno != EAGAIN || i == kTries) return pid;
    std::this_thread::sleep_for(std::chrono::milliseconds(10 << i));
  }
}

ExitStatus translate(int raw) {
  if (WIFSIGNALED(raw)) return {-1, WTERMSIG(raw)};
  return {WEXITSTATUS(raw), 0};
}

// What to do about errno of a program that could not be executed.
std::string remedy(const SpawnOptions& options, int code) {
  const auto path = std::filesystem::path(options.directory) / options.argv[0];
  std::error_code error;
  const bool script = code == ENOENT &&
                      options.argv[0].find('/') != std::string::npos &&
                      std::filesystem::exists(path, error);
  return script ? "it is there, but not the interpreter that its first line "
                  "names; Windows line ends are one cause"
                : "is it installed and executable?";
}

}  // namespace

std::string describe(const ExitStatus& status) {
  if (status.signal == 0) return fmt::format("exit code {}", status.exit_code);
  const char* name = sigdescr_np(status.signal);
  return fmt::format("signal {} ({})", status.signal,
                     name != nullptr ? name : "unknown");
}

Child::Child(const SpawnOptions& options) {
  if (options.argv.empty() || options.argv[0].empty()) {
    throw Error(ErrorKind::config, "no program to run");
  }
  const Prepared prepared(options);
  Pipe in = Pipe::of_socket(options.feed);
  Pipe out(options.capture);
  Pipe err(options.capture && !options.merge);
  Pipe failure(true);
  const pid_t parent = getpid();
  pid_ = fork_patiently();
  if (pid_ < 0) {
    throw Error(ErrorKind::temporary,
                fmt::format("{}: cannot start a process: {}", options.argv[0],
                            errno_text(errno)));
  }
  if (pid_ == 0) {
    become(options, prepared, parent, in.read_end, out.write_end, err.write_end,
           failure.write_end);
  }
  setpgid(pid_, pid_);  // also here: one of both comes first
  close(std::exchange(failure.write_end, -1));
  int code = 0;
  ssize_t n;
  do {
    n = read(failure.read_end, &code, sizeof code);
  } while (n < 0 && errno == EINTR);
  if (n > 0) {
    waitpid(pid_, nullptr, 0);  // it is past _exit
    throw Error(ErrorKind::config,
                fmt::format("{}: cannot be run: {} ({})", options.argv[0],
                            errno_text(code), remedy(options, code)));
  }
  in_ = std::exchange(in.write_end, -1);
  if (options.capture) out_ = out.take_read_end();
  if (options.capture && !options.merge) err_ = err.take_read_end();
  // By number: glibc 2.36 declares pidfd_open() without C linkage.
  exit_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
}

Child::~Child() {
  // The group first, while the unreaped leader still keeps its id from being
  // used again.
  if (!status_) kill(-pid_, SIGKILL);
  wait(std::chrono::seconds(2));
  for (const int descriptor : {in_, out_, err_, exit_}) {
    if (descriptor >= 0) close(descriptor);
  }
}

size_t Child::feed(std::string_view text) {
  size_t taken = 0;
  while (taken < text.size() && in_ >= 0) {
    const ssize_t n = ::send(in_, text.data() + taken, text.size() - taken,
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    taken += static_cast<size_t>(n);
  }
  return taken;
}

void Child::stop_feeding() {
  if (in_ >= 0) close(std::exchange(in_, -1));
}

bool Child::read_some(int& descriptor, std::string& text) {
  std::array<char, 16384> buffer;
  for (int round = 0; descriptor >= 0 && round < 16; ++round) {
    const ssize_t n = read(descriptor, buffer.data(), buffer.size());
    if (n > 0) {
      text.append(buffer.data(), static_cast<size_t>(n));
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else if (n < 0 && errno == EAGAIN) {
      return true;
    } else {
      close(std::exchange(descriptor, -1));
    }
  }
  return descriptor >= 0;
}

std::optional<ExitStatus> Child::status() {
  if (status_) return status_;
  // Look first, then clear the group, then reap: an id is reused only after.
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info,
             WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0) {
    return std::nullopt;
  }
  kill(-pid_, SIGKILL);
  int raw = 0;
  if (waitpid(pid_, &raw, WNOHANG) == pid_) status_ = translate(raw);
  return status_;
}

std::optional<ExitStatus> Child::wait(Duration patience) {
  const auto end = system_clock().now() + patience;
  while (!status()) {
    const Duration left = end - system_clock().now();
    if (left.count() <= 0) break;
    const int64_t ms = std::min<int64_t>(left.count() / 1'000'000 + 1, 50);
    pollfd item{exit_, POLLIN, 0};  // a negative descriptor just waits
    poll(&item, 1,
         static_cast<int>(exit_ >= 0 ? ms : std::min(ms, int64_t{5})));
  }
  return status_;
}

void Child::signal_group(int signal) {
  if (status_) return;
  kill(-pid_, signal);
  if (signal == SIGTERM || signal == SIGINT) kill(-pid_, SIGCONT);
}

}  // namespace dtune
