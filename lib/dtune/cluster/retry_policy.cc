#include "dtune/cluster/retry_policy.h"

namespace dtune {

RetryRule retry_rule(Reason cause) {
  switch (cause) {
    case Reason::crashed:     // a segmentation fault may be the machine's
    case Reason::bad_output:  // so may be a program that ended with an error
      return {true, true, TrialState::failed};
    case Reason::killed:
    case Reason::lease_lapsed:
    case Reason::node_lost:
      return {true, false, TrialState::failed};
    case Reason::said_invalid:
      return {false, false, TrialState::invalid};
    case Reason::wall_clock:
      return {false, false, TrialState::timed_out};
    default:  // diverged, out_of_memory, ...
      return {false, false, TrialState::failed};
  }
}

namespace {

// A program that is missing or cannot be executed, as shells and this program
// say it; or that has refused its arguments before it did anything, by the exit
// codes of argparse, getopt and sysexits.h.
bool is_certain(Reason cause, int exit_code, const AttemptHistory& before) {
  if (cause != Reason::bad_output) return false;
  if (exit_code == 126 || exit_code == 127) return true;
  return !before.reported && (exit_code == 2 || exit_code == 64);
}

}  // namespace

bool should_retry(Reason cause, int exit_code, const AttemptHistory& before,
                  int retries) {
  const RetryRule rule = retry_rule(cause);
  if (!rule.retry || before.failures > retries) return false;
  if (is_certain(cause, exit_code, before)) return false;
  const bool same = exit_code > 0 && exit_code == before.last_exit_code &&
                    cause == before.last_cause;
  return !(rule.unless_same && same);
}

}  // namespace dtune
