// The TrialRunner of `command:` recipes; made by make_command_runner() in
// cluster/worker.h, which says what a program sees and says.
#pragma once

#include "dtune/study/trial_runner.h"

namespace dtune {

// The program ended by itself in a way that fails the trial.
class CommandExit : public TrialFailure {
 public:
  CommandExit(Reason reason, const std::string& text, int exit_code, int signal)
      : TrialFailure(reason, text), exit_code_(exit_code), signal_(signal) {}
  int exit_code() const { return exit_code_; }
  int signal() const { return signal_; }

 private:
  int exit_code_;
  int signal_;
};

}  // namespace dtune
