// Translates what LibTorch throws at the edge of this module.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "dtune/study/trial_runner.h"

namespace dtune {

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

}  // namespace dtune
