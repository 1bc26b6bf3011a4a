// Which jobs of an engine a study has, and when to ask for another: the
// decisions of ElasticLauncher, without its commands.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/cluster/launcher.h"
#include "dtune/cluster/process_launcher.h"

namespace dtune {

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
// - What fails for good (LaunchFailure::lasts) is given up, and so is asking
//   where five jobs in a row ended before their agents came.
// - After close() all jobs of the study are cancelled, once.
//
// What next() says is done by the caller, which then calls begun() and one of
// submitted(), listed(), cancelled(), failed() and unanswered() before it asks
// again. A line for the user where the engine's reason changes, one for a
// failure until it changes. Not thread-safe.
class ElasticJobs {
 public:
  enum class Action { submit, list, cancel };

  // `clock` must outlive this.
  ElasticJobs(ElasticOptions options, const Clock& clock);

  void set_demand(const Demand& demand);
  std::optional<Action> next();
  void begun(Action action);
  // `job`: "" where the engine did not say it; a listing will.
  void submitted(const std::string& job);
  void listed(const std::vector<ListedJob>& jobs);
  void cancelled();
  void failed(Action action, const LaunchFailure& failure);
  // The action went on for longer than `command_timeout`.
  void unanswered(Action action);
  void close() { closed_ = true; }

  bool closed() const { return closed_; }
  bool is_cancelled() const { return cancelled_; }
  bool given_up() const { return given_up_; }
  const std::string& problem() const { return problem_; }
  std::vector<std::string> take_notices();

 private:
  struct Job {
    bool here = false;  // its agent is
    bool came = false;  // was, at least once
    bool ends = false;  // soon
    bool pending = true;
    int missing = 0;     // listings in a row that lack it
    std::string reason;  // last said
  };

  void ended_well(Action action);
  void drop_ended();
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
