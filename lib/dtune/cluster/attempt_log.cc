#include "dtune/cluster/attempt_log.h"

namespace dtune {

bool AttemptLog::failed(const Trial& trial, Reason cause, int exit_code) {
  AttemptHistory& history = histories_[trial.id];
  history.failures = trial.failures;
  history.reported = !trial.curve.empty();
  const bool again = should_retry(cause, exit_code, history, retries_);
  history.last_cause = cause;
  history.last_exit_code = exit_code;
  return again;
}

}  // namespace dtune
