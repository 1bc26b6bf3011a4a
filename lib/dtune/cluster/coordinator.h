// The coordinator of a study: owns the decisions, the leases and the database;
// talks to agents over ZeroMQ. See cluster/protocol.h for the messages.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "dtune/base/clock.h"
#include "dtune/cluster/events.h"
#include "dtune/store/trial_store.h"
#include "dtune/study/tuner.h"

namespace dtune {

struct CoordinatorOptions {
  std::string endpoint;  // ZeroMQ endpoint to bind, "ipc:///..." or "tcp://..."
  std::filesystem::path checkpoints;    // folder for checkpoint files
  std::filesystem::path prepared_data;  // "" for command studies
  std::filesystem::path model_file;     // where the final model goes
  // Makes the recipe of a trial (config::RecipeFile::with_point); throws
  // Error(config) for a point that makes no valid recipe: the trial is invalid.
  std::function<Recipe(const Point&)> recipe_for;
  // Starts (or restarts, if it died) this machine's agent; may be empty where
  // agents join by themselves. Polled: returns false while it is alive.
  std::function<void()> ensure_local_agent;
};

// How a study ended.
struct StudyOutcome {
  StudyState state = StudyState::finished;
  std::string why;                              // one sentence
  TrialId best = 0;                             // of the search; 0: none
  TrialId final_trial = 0;                      // 0: none was trained
  std::map<std::string, double> final_metrics;  // validation and test
};

class Coordinator {
 public:
  // `study` is loaded (resume) or fresh; it is kept and written by this alone.
  // All references must outlive this. Binds the endpoint: throws Error(comm).
  Coordinator(Study& study, TrialStore& store, Sampler& sampler,
              Scheduler& scheduler, ProgressSink& sink, const Clock& clock,
              CoordinatorOptions options);
  ~Coordinator();

  // Runs until the budget is spent and the final model trained, or `stop` is
  // set (then: asks all slots to checkpoint and stop, state `interrupted`).
  // Setting `stop` twice (value 2) does not wait for the step in flight.
  // Blocks; one thread.
  StudyOutcome run(const std::atomic<int>& stop);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtune
