// A study whose trials are run by other programs: they ask for points, and tell
// what became of them (`dtune ask`, `dtune tell`). Decisions are taken,
// recorded and replayed as the coordinator's are; there are no processes,
// leases or checkpoints.
#pragma once

#include <map>
#include <string>

#include "dtune/cluster/budget.h"
#include "dtune/cluster/records.h"
#include "dtune/study/tuner.h"

namespace dtune {

struct AskAnswer {
  enum class Kind {
    trial,     // to be trained from `from_step` to `to_step`, and told of
    wait,      // not before a report of a trial that is being trained
    finished,  // the search is over
  };
  Kind kind = Kind::wait;
  TrialId trial = 0;
  std::string why;
};

// What became of a trial.
struct Told {
  enum class Outcome {
    report,   // metrics after a step
    failed,   // it broke: as a trial that crashed
    invalid,  // its point makes no sense; does not count towards the budget
    lost,     // it could not be run to its end: to be asked for again
  };
  TrialId trial = 0;
  Attempt attempt = 0;  // 0: the present one
  Outcome outcome = Outcome::report;
  int step = 0;  // 0: the one after the last that was reported
  std::map<std::string, double> metrics;
  bool last = false;   // the trial has ended by itself
  std::string detail;  // why, where it is no report
};

struct TellAnswer {
  bool counted = false;  // false: the trial is no longer this attempt's
  bool go_on = false;    // train on to the trial's target_step
};

// The one writer of a study, for one question or answer or several. Not
// thread-safe; never waits but for the database.
class AskTell {
 public:
  // All of these outlive it. A study that was not begun begins. Throws
  // Error(temporary) where the database cannot be written.
  AskTell(Study& study, TrialStore& store, Sampler& sampler,
          Scheduler& scheduler, ProgressSink& sink, const Clock& clock);

  // What was lost goes first, then what the scheduler says. A trial that is
  // given out is `running` until it is reported; limits.trial_time after that
  // it is timed out.
  AskAnswer ask();

  // A step that was reported already does not count. Throws Error(config): no
  // such trial, a report without the objective's metric, a step is missing.
  TellAnswer tell(const Told& told);

 private:
  void begin();
  void end_overdue();
  const Trial* owed() const;
  bool any_running() const;
  AskAnswer wait(const std::string& why) const;
  AskAnswer give(Trial& trial, Reason reason, const std::string& why);
  AskAnswer start(const Directive& directive);
  AskAnswer resume(const Directive& directive);
  AskAnswer finish(const std::string& why);
  void name_winner(const std::string& why_over);
  std::string why_over() const;
  TellAnswer take_report(Trial& trial, const Told& told);
  TellAnswer decide_upon(Trial& trial, const StepReport& report);
  void end_trial(Trial& trial, DecisionMaker maker, const char* action,
                 TrialState state, Reason reason, const std::string& why);

  Study& study_;
  Sampler& sampler_;
  Scheduler& scheduler_;
  const Clock& clock_;
  Records records_;
  BudgetMeter budget_;
};

}  // namespace dtune
