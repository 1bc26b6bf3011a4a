// Translates what LibTorch throws at the edge of this module.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "dtune/study/trial_runner.h"

namespace dtune {

// What it says, without LibTorch's stack trace.
std::string first_line(const std::exception& error);

// The failure that an exception of LibTorch or the standard library means for
// a trial: out_of_memory or crashed, with its first line.
TrialFailure translate_failure(const std::string& where,
                               const std::exception& error);

// Runs `work`; errors of ours, StepStopped among them, pass as they are.
template <typename Work>
auto as_trial_failure(const std::string& where, Work&& work) {
  try {
    return work();
  } catch (const TrialFailure&) {
    throw;
  } catch (const Error& error) {
    // nn knows no reasons: a trial's error of its is a lack of memory.
    if (error.kind() != ErrorKind::trial) throw;
    throw TrialFailure(Reason::out_of_memory, where + ": " + error.what());
  } catch (const std::exception& error) {
    throw translate_failure(where, error);
  }
}

// Likewise for the step that follows `steps_done`, which the text of a failure
// names: as it is then, for `work` may change it.
template <typename Work>
auto as_step_failure(const std::string& where, const int& steps_done,
                     Work&& work) {
  try {
    return as_trial_failure(where, std::forward<Work>(work));
  } catch (const TrialFailure& failure) {
    throw TrialFailure(
        failure.reason(),
        "step " + std::to_string(steps_done + 1) + ": " + failure.what());
  }
}

}  // namespace dtune
