// Ctrl-C and the terminal: what a signal does to a command that runs for long.
#pragma once

#include <atomic>

namespace dtune {

// While it lives: SIGINT, SIGTERM, SIGHUP and SIGUSR2, by which engines say
// that a deadline is near, count up `stop()` (1: stop cleanly, 2: at once) and
// say on stderr what they do; the third ends the process with exit code 130.
// What comes less than a second after another is the same, but for SIGINT. One
// at a time per process; the old handlers are back when it is gone. SIGPIPE is
// ignored from then on: a result is not lost because it is not read.
class StopSignals {
 public:
  // `quiet`: says nothing (a process that no user sees). `first` is written
  // to stderr with the first signal; it must outlive this.
  explicit StopSignals(bool quiet, const char* first = "");
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  const std::atomic<int>& stop() const;
};

}  // namespace dtune
