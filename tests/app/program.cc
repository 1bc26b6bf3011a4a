#include "app/program.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pty.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dtune {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(120);
// Marks every process that a workplace starts.
constexpr const char* kMark = "DTUNE_TEST_WORKPLACE";

// Between fork and exec; the child leaves by _exit alone.
[[noreturn]] void become_dtune(
    const std::vector<std::string>& words, const fs::path& folder,
    const std::map<std::string, std::string>& environment, int user) {
  std::vector<std::string> copy = words;
  std::vector<char*> argv;
  for (std::string& word : copy) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::unsetenv("NO_COLOR");
  ::unsetenv("CLICOLOR_FORCE");
  for (const auto& [name, value] : environment) {
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  const auto id = static_cast<uid_t>(user);
  if (user != 0 && (::setgid(id) != 0 || ::setuid(id) != 0)) ::_exit(98);
  if (::chdir(folder.c_str()) == 0) ::execvp(argv[0], argv.data());
  ::_exit(99);
}

struct Pipe {
  int read_end = -1;
  int write_end = -1;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    read_end = ends[0];
    write_end = ends[1];
  }
};

bool drain(int& descriptor, std::string& text) {
  char buffer[4096];
  const ssize_t n = ::read(descriptor, buffer, sizeof buffer);
  if (n > 0) {
    text.append(buffer, static_cast<size_t>(n));
    return true;
  }
  if (n < 0 && errno == EINTR) return true;
  ::close(descriptor);  // EOF; EIO is a terminal's
  descriptor = -1;
  return false;
}

std::string slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();  // of a process that has just gone: nothing
  return std::move(text).str();
}

}  // namespace

RunningProgram::RunningProgram(
    const std::vector<std::string>& words, const fs::path& folder,
    const std::map<std::string, std::string>& environment, bool terminal,
    int user) {
  Pipe out;
  Pipe err;
  if (terminal) {
    winsize size{.ws_row = 24, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
    pid_ = ::forkpty(&out_, nullptr, nullptr, &size);
  } else {
    pid_ = ::fork();
  }
  if (pid_ == 0) {
    if (!terminal) {
      ::setpgid(0, 0);  // forkpty made a session, which is a group, too
      ::dup2(out.write_end, STDOUT_FILENO);
    }
    ::dup2(err.write_end, STDERR_FILENO);
    become_dtune(words, folder, environment, user);
  }
  if (!terminal) ::setpgid(pid_, pid_);
  ::close(out.write_end);
  ::close(err.write_end);
  if (terminal) {
    ::close(out.read_end);
  } else {
    out_ = out.read_end;
  }
  err_ = err.read_end;
}

RunningProgram::~RunningProgram() {
  if (pid_ > 0) {
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (out_ >= 0) ::close(out_);
  if (err_ >= 0) ::close(err_);
}

bool RunningProgram::read_some(int timeout_ms) {
  pollfd both[2] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
  ::poll(both, 2, timeout_ms);
  if (out_ >= 0 && both[0].revents != 0) drain(out_, outcome_.out);
  if (err_ >= 0 && both[1].revents != 0) drain(err_, outcome_.err);
  return out_ >= 0 || err_ >= 0;
}

bool RunningProgram::await(const std::string& heard, const int& descriptor,
                           const std::string& text) {
  const auto until = steady_clock::now() + kPatience;
  while (steady_clock::now() < until) {
    if (heard.find(text) != std::string::npos) return true;
    if (descriptor < 0) return false;
    read_some(100);
  }
  return false;
}

bool RunningProgram::ended() const {
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  return info.si_pid != 0;
}

void RunningProgram::send(int signal) const { ::kill(pid_, signal); }

void RunningProgram::send_group(int signal) const { ::kill(-pid_, signal); }

Outcome RunningProgram::wait(std::chrono::seconds patience) {
  const auto until = steady_clock::now() + patience;
  while (read_some(100)) {
    if (steady_clock::now() > until) {
      ::kill(-pid_, SIGKILL);
      outcome_.err += "\n[killed by the test: took too long]\n";
    }
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  if (WIFEXITED(status)) outcome_.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome_.signal = WTERMSIG(status);
  return outcome_;
}

Workplace::Workplace() : folder_("dtune-test") {
  environment = {{kMark, path().string()},
                 {"HOME", path().string()},
                 {"XDG_CACHE_HOME", (path() / "cache").string()},
                 {"TERM", "xterm"},
                 {"LC_ALL", "C.UTF-8"}};
}

void Workplace::become(int user) {
  user_ = user;
  const auto id = static_cast<uid_t>(user);
  if (::chown(path().c_str(), id, id) != 0) {
    throw std::runtime_error("chown");
  }
}

void Workplace::write(const std::string& name, const std::string& text) const {
  fs::create_directories((path() / name).parent_path());
  std::ofstream(path() / name) << text;
}

std::string Workplace::read(const std::string& name) const {
  return slurp(path() / name);
}

bool Workplace::has(const std::string& name) const {
  return fs::exists(path() / name);
}

Outcome Workplace::run(const std::vector<std::string>& words) const {
  return start(words).wait();
}

RunningProgram Workplace::start(const std::vector<std::string>& words,
                                bool terminal,
                                std::vector<std::string> before) const {
  before.emplace_back(DTUNE_BINARY);
  before.insert(before.end(), words.begin(), words.end());
  return {before, path(), environment, terminal, user_};
}

std::vector<std::string> Workplace::orphans(int patience_ms) const {
  const std::string mark = fmt::format("{}={}", kMark, path().string());
  const auto until =
      steady_clock::now() + std::chrono::milliseconds(patience_ms);
  std::vector<std::string> found;
  do {
    found.clear();
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string environ = slurp(entry.path() / "environ");
      if (environ.find(mark) == std::string::npos) continue;
      found.push_back(entry.path().filename().string() + " " +
                      slurp(entry.path() / "cmdline"));
    }
    if (found.empty()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (steady_clock::now() < until);
  return found;
}

int shut_connections(pid_t pid) {
  const auto process = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (process < 0) return 0;
  int shut = 0;
  std::error_code error;
  for (const auto& entry :
       fs::directory_iterator(fmt::format("/proc/{}/fd", pid), error)) {
    const auto target = fs::read_symlink(entry.path(), error);
    if (error || !target.string().starts_with("socket:")) continue;
    const auto copy = static_cast<int>(
        ::syscall(SYS_pidfd_getfd, process,
                  std::stoi(entry.path().filename().string()), 0));
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    const bool connected =
        copy >= 0 &&
        ::getpeername(copy, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
    if (connected && peer.ss_family == AF_INET &&
        ::shutdown(copy, SHUT_RDWR) == 0) {
      ++shut;
    }
    if (copy >= 0) ::close(copy);
  }
  ::close(process);
  return shut;
}

std::string shell_recipe(int trials, int steps, const std::string& seconds) {
  const char* script =
      "x = log(lr / 0.01) / log(10); if (x < 0) x = -x; "
      "for (s = 1; s <= {1}; ++s) {{ "
      "print \"step=\" s \" val_accuracy=\" 0.9 - 0.1 * x - 0.1 / s; "
      "fflush(); system(\"sleep {2}\") }}";
  return fmt::format(
      "study: shell\n"
      "command:\n"
      "  run: >-\n"
      "    awk -v lr={{lr}} 'BEGIN {{ {} }}'\n"
      "  steps: {}\n"
      "space:\n"
      "  lr: {{ log: [1.0e-4, 1.0] }}\n"
      "budget: {{ trials: {} }}\n"
      "slots: 2\n",
      fmt::format(fmt::runtime(script), 0, steps, seconds), steps, trials);
}

std::string held_recipe(int trials, int steps, const std::string& seconds,
                        int held) {
  return shell_recipe(
      trials, steps,
      fmt::format("{}; while [ -e hold ] && [ \" s \" -ge {} ]; do "
                  "sleep 0.02; done",
                  seconds, held));
}

}  // namespace dtune
