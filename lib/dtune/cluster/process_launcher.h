// An agent that is a child process of this one, started again where it ends.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/base/error.h"
#include "dtune/cluster/child_process.h"
#include "dtune/cluster/launch_failure.h"
#include "dtune/cluster/launcher.h"

namespace dtune {

// Keeps one child running. After an end it waits for a pause that doubles with
// every failure in a row, up to a minute. What is particular to a way of
// starting comes from the derived class, whose destructor calls finish().
class ProcessLauncher : public Launcher {
 public:
  void ensure() override;
  void read_output() override;
  void close() override;
  std::vector<std::string> take_notices() override;
  bool given_up() const override { return given_up_; }
  std::string problem() const override { return problem_; }

 protected:
  // A child that ran for `settled` was no failure. `clock` must outlive this.
  ProcessLauncher(const Clock& clock, Duration settled)
      : clock_(clock), settled_(settled) {}

  // What to run now.
  virtual SpawnOptions command() = 0;
  // A line of the child's stdout and stderr, without its end.
  virtual void on_line(const std::string& line) = 0;
  // Why it ended.
  virtual LaunchFailure explain(const ExitStatus& status) = 0;
  // Why it could not be started; called while the error is being handled.
  virtual LaunchFailure explain(const Error& error) = 0;

  Child& child() { return *child_; }
  // The end of what the child has written since it was started.
  const std::string& last_words() const { return last_words_; }
  int failures() const { return failures_; }  // in a row, this one included
  // The agent is there; where it was not before, the user learns of it.
  void succeed(const std::string& notice);
  // Reads what the child still writes, for `patience` at most.
  void finish(Duration patience);

 private:
  void start();
  void read_rest();  // also a line without an end
  void take_line(const std::string& line);
  void on_end(const ExitStatus& status);
  void fail(const LaunchFailure& failure);

  const Clock& clock_;
  const Duration settled_;
  std::unique_ptr<Child> child_;
  std::string partial_line_;
  std::string last_words_;
  int failures_ = 0;
  bool given_up_ = false;
  std::string problem_;
  std::vector<std::string> notices_;
  MonoTime started_{};
  MonoTime next_start_{};
};

}  // namespace dtune
