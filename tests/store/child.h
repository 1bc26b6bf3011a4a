// A forked process for tests of what happens when one dies.
#pragma once

#include <csignal>
#include <cstdint>
#include <exception>
#include <functional>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

namespace dtune::test {

// Runs `body` in a child; killed (if it still runs) and reaped at the end.
// Make no threads in the parent before.
class Child {
 public:
  explicit Child(const std::function<void()>& body) : pid_(::fork()) {
    if (pid_ != 0) return;
    try {
      body();
    } catch (const std::exception&) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  ~Child() {
    if (pid_ > 0) kill_now();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }

  void kill_now() {
    ::kill(pid_, SIGKILL);
    wait();
  }
  // Exit code, or -1 where a signal ended it.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_;
};

// Numbers from a child to its parent.
class Pipe {
 public:
  Pipe() {
    if (::pipe(ends_) != 0) std::terminate();
  }
  ~Pipe() {
    ::close(ends_[0]);
    close_writing();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void close_writing() {
    if (ends_[1] >= 0) ::close(std::exchange(ends_[1], -1));
  }
  void send(int64_t number) {
    if (::write(ends_[1], &number, sizeof number) != sizeof number) {
      ::_exit(2);  // the parent is gone
    }
  }
  // False at the end.
  bool receive(int64_t& number) {
    return ::read(ends_[0], &number, sizeof number) == sizeof number;
  }

 private:
  int ends_[2] = {-1, -1};
};

}  // namespace dtune::test
