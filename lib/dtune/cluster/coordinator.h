// The coordinator of a study: owns the decisions, the leases and the database;
// talks to agents over ZeroMQ. See cluster/protocol.h for the messages.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/cluster/agent_transport.h"
#include "dtune/cluster/events.h"
#include "dtune/cluster/launcher.h"
#include "dtune/store/trial_store.h"
#include "dtune/study/tuner.h"

namespace dtune {

// How decisions are taken:
// - a free slot first gets trials that are owed a lease (lost, interrupted),
//   then what the scheduler says; budgets are enforced here;
// - every lease has a number (attempt); what comes under an older one is
//   dropped; a lease ends when its slot is silent for limits.lease, when a step
//   takes longer than limits.step_time (by default what step_limit.h measures),
//   or by decision;
// - cluster/retry_policy.h says which failures are tried again, up to
//   limits.retries times, from the last checkpoint;
// - a report is acknowledged once it is committed; while the database cannot be
//   written (disk full) nothing new is started, and nothing is lost;
// - recipe.deterministic: slots are heard in turns, in the order of trials.
//   Same seed and slots give the same decisions; each step then waits for the
//   slowest slot.
// - after the search the best trial is trained to the end (final_training) and
//   tested; command studies have no model to keep, so theirs end there.
//
// Costs O(slots) a report, and O(log n) in the number of trials.
struct CoordinatorOptions {
  std::string endpoint;  // ZeroMQ endpoint to bind, "ipc:///..." or "tcp://..."
  // Where agents on other machines join, "tcp://10.0.0.1:5555"; port 0: any;
  // "": none may. Needs security beyond loopback (EnrolmentServer has it).
  std::string remote;
  std::optional<ListenSecurity> security;
  // What carries agents' messages instead of sockets at these addresses; null:
  // those.
  std::shared_ptr<AgentTransport> transport;
  // Notices for the user, e.g. EnrolmentServer::take_notices; asked
  // about ten times a second on the coordinator's thread. May be empty.
  std::function<std::vector<std::string>()> take_notices;
  std::filesystem::path checkpoints;    // folder for checkpoint files
  std::filesystem::path prepared_data;  // "" for command studies
  std::filesystem::path model_file;     // where the final model goes
  // Makes the recipe of a trial (config::RecipeFile::with_point); throws
  // Error(config) for a point that makes no valid recipe: the trial is invalid.
  std::function<Recipe(const Point&)> recipe_for;
  // Starts (or restarts, if it died) this machine's agent; may be empty where
  // agents join by themselves. Called about ten times a second; must not block.
  std::function<void()> ensure_local_agent;
  // Takes what agents have written (Launcher::read_output); may be empty.
  // Called about twenty times a second until all of them have ended.
  std::function<void()> read_agents;
  // What agents trials could use; given before each call of the above. May be
  // empty.
  std::function<void(const Demand&)> take_demand;
  // Where nodes that do not share this disk fetch data and checkpoints, and
  // bring checkpoints and the model (lease_files.h); without addresses all are
  // taken to share it.
  ListenOptions files;
  // Where the ranks of trials that take several slots find the gang server;
  // unused where they take one.
  ListenOptions gangs;
  // Where ranks on other machines reach those on this one; "": none does.
  std::string gang_address;
  std::filesystem::path trace;  // of the ranks, Trace Event Format; "": none
  // The study fails when it has been without any agent for this long.
  Duration agent_timeout{60'000'000'000};
  // Where it is interrupted, an engine starts this coordinator again: agents
  // are to look for it rather than to end for good.
  bool returns = false;
  // Steps of the final training; 0: study.horizon, scaled where
  // final_training.epochs differs from train.epochs.
  int final_horizon = 0;
};

// How a study ended.
struct StudyOutcome {
  StudyState state = StudyState::finished;
  std::string why;          // one sentence
  bool temporary = false;   // `interrupted`, by what may pass: exit code 75
  TrialId best = 0;         // of the search; 0: none
  TrialId final_trial = 0;  // 0: none was trained
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
  //
  // Throws only what concerns no trial: Error(internal), Error(store) where the
  // database refuses to be used; agents are stopped first. A study that
  // failed, e.g. as every trial did, is an outcome.
  StudyOutcome run(const std::atomic<int>& stop);

  // Where agents connect to: the endpoint bound, with the port that was chosen
  // for "tcp://127.0.0.1:0".
  std::string endpoint() const;
  // Likewise where others join; "": nowhere.
  std::string remote_endpoint() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtune
