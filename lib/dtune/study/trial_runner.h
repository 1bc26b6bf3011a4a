// What a worker process runs: the steps of one trial. Implementations: train/
// (a CNN, behind LibTorch) and cluster/command_runner (any program).
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "dtune/study/rank_info.h"
#include "dtune/study/recipe.h"
#include "dtune/study/trial.h"

namespace dtune {

// Everything that a worker needs to run a trial; travels over the wire.
struct TrialAssignment {
  std::string study_id;
  TrialId trial = 0;
  Attempt attempt = 0;
  TrialKind kind = TrialKind::search;
  Recipe recipe;  // with the point's values in place
  Point point;    // command trials get it as arguments
  uint64_t seed = 0;
  int horizon = 1;
  std::filesystem::path checkpoint;     // to write after each step
  int resume_step = 0;                  // >0: the checkpoint holds this step
  std::filesystem::path prepared_data;  // data/prepared.h; "" for commands
  std::filesystem::path model_file;     // final: where the model goes
  TrialId origin = 0;  // final: the search's trial whose point the model is of
  int kept_step = 0;   // final: the step that is kept
  std::string chosen;  // final: why that trial and step, one sentence
  std::string recipe_yaml;  // resolved, kept beside the final model
  int threads = 1;
  bool deterministic = false;
  std::optional<RankInfo> rank;  // recipe.parallel: one of several
};

// Thrown by run_step when `stop` was set in the middle of a step: nothing of
// the step counts.
struct StepStopped {};

// How far the step in flight is.
struct StepProgress {
  double fraction = 0;            // 0..1
  double samples_per_second = 0;  // 0: unknown
  // Grows while processes that are not this one compute or write: milliseconds
  // of CPU time, or more.
  uint64_t activity = 0;
  int together =
      1;  // trials that are computed at the same time, this one included
};

// One trial in a worker. Not thread-safe, but `stop` may be set by any thread.
class TrialSession {
 public:
  virtual ~TrialSession() = default;

  // Steps finished; what the checkpoint holds after a resume.
  virtual int steps_done() const = 0;
  // Trains one step, evaluates, writes the checkpoint. Throws Error(trial) with
  // a Reason in the text's place (see TrialFailure) or StepStopped.
  virtual StepReport run_step(const std::atomic<bool>& stop) = 0;
  // run_step has trained a step but could not write its checkpoint, as the disk
  // is full (it threw Error(temporary)): called again, it only tries to write.
  virtual bool is_unsaved() const { return false; }
  // Bytes that keeping this session warm costs.
  virtual uint64_t resident_bytes() const = 0;
  // kind == final, after the step that is kept: evaluates the test split
  // (once), writes the model; returns test metrics ("test_accuracy", ...).
  virtual std::map<std::string, double> finish_final() = 0;
  // Thread-safe, also while a step runs; must not block.
  virtual StepProgress progress() const { return {}; }
};

// A failure that belongs to the trial and says why.
class TrialFailure : public Error {
 public:
  TrialFailure(Reason reason, const std::string& text)
      : Error(ErrorKind::trial, text), reason_(reason) {}
  Reason reason() const { return reason_; }

 private:
  Reason reason_;
};

// Makes sessions; one per worker process. May keep data loaded between trials.
class TrialRunner {
 public:
  virtual ~TrialRunner() = default;
  // Throws TrialFailure; Error(data) where the prepared data cannot be mapped.
  virtual std::unique_ptr<TrialSession> start(
      const TrialAssignment& assignment) = 0;
};

}  // namespace dtune
