// What is known of a trial: its point, state, curve and why it is as it is.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dtune/space/value.h"

namespace dtune {

// 1, 2, 3, ... in order of proposal, unique within a study.
using TrialId = int64_t;

// A later lease of the same trial has a larger attempt, starting with 1.
using Attempt = int;

enum class TrialState {
  waiting,    // proposed, not yet given to a slot
  running,    // a slot holds its lease
  paused,     // has a checkpoint; may be given more steps
  complete,   // reached the horizon
  cut,        // left by a decision: hopeless, stalled, straggling, rung lost
  failed,     // the trial itself broke (diverged, crashed, bad shape)
  lost,       // its lease lapsed; will be resumed or given up
  timed_out,  // over its wall-clock cap
  invalid,    // the trial itself said that its point makes no sense
};

// Why a trial changed its state; the sentence goes beside it.
enum class Reason {
  none,
  proposed,
  assigned,
  rung,  // paused by or lost at a rung of ASHA
  promoted,
  horizon,
  median,  // cut by the median rule
  hopeless,
  stalled,
  straggling,
  diverged,  // NaN or infinite metric
  crashed,   // process died by itself; the sentence says how
  out_of_memory,
  bad_output,  // command trial: exit code, or no metric
  lease_lapsed,
  node_lost,
  killed,  // by a signal from outside
  wall_clock,
  user,  // Ctrl-C
  budget,
  resumed,
  superseded,  // another copy finished first
  said_invalid,
  scheduled,  // the scheduler's own choice (pause after a step)
};

const char* to_string(TrialState state);
const char* to_string(Reason reason);
// Throw Error(store) on an unknown word (a newer database).
TrialState parse_trial_state(const std::string& word);
Reason parse_reason(const std::string& word);

// No state follows these, save that `failed`, `lost` and `timed_out` may be
// retried and `cut`/`complete` trials may be continued by the final training.
bool is_terminal(TrialState state);
// Failed, lost, timed out or invalid.
bool is_failure(TrialState state);

// What a trial reports after a step.
struct StepReport {
  int step = 0;  // 1, 2, ... horizon
  // "val_accuracy", "val_loss", "train_loss", ... finite or not.
  std::map<std::string, double> metrics;
  double seconds = 0;             // wall-clock of the step, evaluation included
  double checkpoint_seconds = 0;  // of writing the checkpoint after it
  // Order of arrival in the study, 1, 2, ...; 0: not known. What the surrogate
  // learns depends on it, so a resumed study must find it again.
  int64_t sequence = 0;
  bool last = false;  // the trial has no further step (a command that ended)
};

enum class TrialKind {
  search,  // part of the search
  final,   // training of the winner to keep; sees the test split, once
  repeat,  // of a point of the search with another seed, to compare the best
};

const char* to_string(TrialKind kind);
TrialKind parse_trial_kind(const std::string& word);  // others: search

struct Trial {
  TrialId id = 0;
  TrialKind kind = TrialKind::search;
  Point point;
  std::vector<double> unit;  // space.encode(point)
  uint64_t seed = 0;
  TrialState state = TrialState::waiting;
  Reason reason = Reason::proposed;
  std::string detail;             // one sentence for people, may be empty
  Attempt attempt = 0;            // leases so far
  int failures = 0;               // attempts that ended failed or lost
  int target_step = 0;            // the step up to which it may run now
  std::vector<StepReport> curve;  // by step, no gaps, no repeats
  std::string node;               // where it runs or ran last
  int slot = -1;
  int64_t created_ms = 0;  // wall clock
  int64_t started_ms = 0;  // first lease; 0: never
  int64_t ended_ms = 0;    // last change of state
  std::string checkpoint;  // file of the last checkpoint, or ""
  int checkpoint_step = 0;

  int steps() const { return curve.empty() ? 0 : curve.back().step; }
};

}  // namespace dtune
