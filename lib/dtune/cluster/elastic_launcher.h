// Agents that an engine starts when it has room (Slurm, Kubernetes): asked for
// as trials could use them, one job each.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/cluster/child_process.h"
#include "dtune/cluster/launcher.h"
#include "dtune/cluster/process_launcher.h"

namespace dtune {

// A command of the engine and what its stdin gets.
struct EngineCommand {
  std::vector<std::string> argv;
  std::string input;
};

// A job of this study as the engine lists it.
struct ListedJob {
  std::string job;      // as its agent says it (JobEnvironment::job)
  bool pending = true;  // it has not started
  std::string reason;   // the engine's own word, e.g. "Priority"; may be ""
  std::string name;     // shown to people; "": job
};

struct ElasticOptions {
  std::string name;      // of this launcher, for people: "slurm://gpu"
  int most = 1;          // jobs at the same time
  int most_pending = 2;  // of them, those that have not started
  Duration listing_interval = std::chrono::seconds(30);
  Duration submit_interval = std::chrono::seconds(1);
  Duration command_timeout = std::chrono::seconds(60);
};

// Decides when to ask for a job, and keeps the user informed: a line where the
// engine's reason changes, one for a failure of its commands until it changes.
//
// - A job is asked for while trials could use more slots than the agents here
//   have and the pending jobs will bring (each as many as an agent has).
// - At most `most_pending` jobs wait, one is submitted a `submit_interval`, and
//   the queue is listed once a `listing_interval`. After a failure the next
//   attempt waits twice as long, up to a minute.
// - Whose agent is here runs, whatever the queue says. A job whose agent never
//   came is over where two listings in a row lack it: one may be empty by
//   mistake; one is enough where its agent has left. Jobs of the study that are
//   listed and unknown (of a coordinator that died, or whose submission was not
//   answered) are taken over.
// - What fails for good (explain().lasts) is given up, and so is asking where
//   five jobs in a row ended before their agents came.
// - close() cancels all jobs of the study; the destructor waits for that.
//
// Commands run one at a time as child processes and are killed after
// `command_timeout`. What is particular to an engine comes from the derived
// class, whose destructor calls finish(). As Launcher: one thread.
class ElasticLauncher : public Launcher {
 public:
  void ensure() override;
  void set_demand(const Demand& demand) override;
  void close() override;
  std::vector<std::string> take_notices() override;
  bool given_up() const override { return given_up_; }
  std::string problem() const override { return problem_; }

 protected:
  enum class Action { submit, list, cancel };

  // `clock` must outlive this.
  ElasticLauncher(ElasticOptions options, const Clock& clock);

  virtual EngineCommand command(Action action) = 0;
  // Of what a submission that went well wrote: the job; "": not said.
  virtual std::string submitted(const std::string& words) = 0;
  // Of what a listing wrote.
  virtual std::vector<ListedJob> listed(const std::string& words) = 0;
  // Why a command failed, whose output was `words`.
  virtual LaunchFailure explain(Action action, const ExitStatus& status,
                                const std::string& words) = 0;

  // Waits until the jobs are cancelled, `patience` at most.
  void finish(Duration patience);

 private:
  struct Job {
    bool here = false;  // its agent is
    bool came = false;  // was, at least once
    bool ends = false;  // soon
    bool pending = true;
    int missing = 0;     // listings in a row that lack it
    std::string reason;  // last said
  };

  void start(Action action);
  void run_command();
  void on_end(const ExitStatus& status);
  void on_listing();
  void drop_ended();
  void on_failure(const LaunchFailure& failure);
  void say(const std::string& text);
  int slots_of_job() const;
  int pending() const;
  bool wants_more() const;

  const ElasticOptions options_;
  const Clock& clock_;
  Demand demand_;
  std::map<std::string, Job> jobs_;  // by name
  int unnamed_ = 0;                  // submitted, names not known yet
  int slots_seen_ = 0;               // of an agent that came
  std::unique_ptr<Child> child_;
  Action action_ = Action::list;
  std::string words_;  // of the command that runs
  MonoTime began_{};   // it
  MonoTime next_submit_{};
  MonoTime next_listing_{};
  Action failed_action_ = Action::list;  // what problem_ is of
  int failures_ = 0;                     // in a row
  int stillborn_ = 0;  // jobs in a row that ended before their agents came
  bool closed_ = false;
  bool cancelled_ = false;
  bool given_up_ = false;
  std::string problem_;
  std::vector<std::string> notices_;
};

}  // namespace dtune
