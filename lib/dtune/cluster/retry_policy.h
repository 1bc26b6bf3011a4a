// What becomes of a trial whose lease ended badly: one table, by cause.
#pragma once

#include "dtune/study/trial.h"

namespace dtune {

struct RetryRule {
  bool retry = false;        // may run again from its last checkpoint
  bool unless_same = false;  // not after the same exit code twice in a row
  TrialState final_state = TrialState::failed;  // where it is not tried again
};

// What would fail the same way again is not tried again: a point that diverges
// or does not fit into memory costs its compute once.
RetryRule retry_rule(Reason cause);

// How the attempts of a trial ended so far.
struct AttemptHistory {
  int failures = 0;  // this one included
  Reason last_cause = Reason::none;
  int last_exit_code = -1;  // -1: none
  bool reported = false;    // it has done a step, in some attempt
};

// Whether the trial gets another attempt after it ended with `cause`.
bool should_retry(Reason cause, int exit_code, const AttemptHistory& before,
                  int retries);

}  // namespace dtune
