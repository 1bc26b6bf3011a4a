// Agents that an engine starts when it has room (Slurm, Kubernetes): asked for
// as trials could use them, one job each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dtune/cluster/child_process.h"
#include "dtune/cluster/elastic_jobs.h"

namespace dtune {

// A command of the engine and what its stdin gets.
struct EngineCommand {
  std::vector<std::string> argv;
  std::string input;
};

// Does what ElasticJobs decides, by commands of the engine. They run one at a
// time as child processes and are killed after `command_timeout`. What is
// particular to an engine comes from the derived class, whose destructor calls
// finish(): close() cancels all jobs of the study, finish() waits for that. As
// Launcher: one thread.
class ElasticLauncher : public Launcher {
 public:
  void ensure() override;
  void set_demand(const Demand& demand) override { jobs_.set_demand(demand); }
  void close() override;
  std::vector<std::string> take_notices() override {
    return jobs_.take_notices();
  }
  bool given_up() const override { return jobs_.given_up(); }
  std::string problem() const override { return jobs_.problem(); }
  // A command runs; ensure() takes its end.
  bool busy() const { return child_ != nullptr; }

 protected:
  using Action = ElasticJobs::Action;

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
  void start(Action action);
  void run_command();
  void on_end(const ExitStatus& status);

  const std::string name_;
  const Duration command_timeout_;
  const Clock& clock_;
  ElasticJobs jobs_;
  std::unique_ptr<Child> child_;
  Action action_ = Action::list;
  std::string words_;  // of the command that runs
  MonoTime began_{};   // it
};

}  // namespace dtune
