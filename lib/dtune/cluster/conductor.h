// The coordinator's mind: turns what the fleet says into decisions. One class,
// in five files: conductor.cc (loop), conductor_leases.cc (who runs what),
// conductor_reports.cc (what a report leads to), conductor_final.cc (the model
// to keep), conductor_status.cc (what is shown).
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dtune/cluster/budget.h"
#include "dtune/cluster/coordinator.h"
#include "dtune/cluster/fleet.h"
#include "dtune/cluster/records.h"
#include "dtune/cluster/retry_policy.h"

namespace dtune {

// Not thread-safe: one thread makes it and calls run() once.
class Conductor {
 public:
  Conductor(Study& study, TrialStore& store, Sampler& sampler,
            Scheduler& scheduler, ProgressSink& sink, const Clock& clock,
            CoordinatorOptions options);
  StudyOutcome run(const std::atomic<int>& stop);
  std::string endpoint() const { return fleet_.endpoint(); }

 private:
  enum class Phase { search, final, done };

  // What is known of a trial beyond its record, of this process alone.
  struct TrialRun {
    std::optional<size_t> slot;  // that holds its lease
    AttemptHistory history;
    int steps_at_lease = 0;
    int reported = 0;    // the last step reported under this lease
    double seconds = 0;  // under leases that are over
  };

  // conductor.cc
  void begin();
  void recover();
  void turn();
  void handle(FleetEvent& event);
  void handle_barriers();
  bool settled() const;
  void send_acknowledgements();
  void check_clocks();
  void check_agents(MonoTime now);
  void on_stop(int level);
  void pause_all(Reason reason, const std::string& why);
  void advance();
  void end(StudyState state, const std::string& why);
  void stop_agents();
  void update_searched();
  void end_of_search(const std::string& why);

  // conductor_status.cc
  void tick();
  ClusterStatus cluster_status();
  bool is_replaced(const FleetSlot& slot) const;

  // conductor_leases.cc
  void fill();
  bool ask_scheduler(size_t slot);
  void start_trial(const Directive& directive, size_t slot);
  bool lease(TrialId id, size_t slot, Reason reason);
  size_t preferred_slot(const Trial& trial, size_t otherwise) const;
  std::optional<size_t> free_slot() const;
  std::optional<TrialId> next_retry() const;
  int grant(const Trial& trial) const;
  int64_t outstanding_steps() const;
  wire::Assign describe(const Trial& trial, int target, size_t slot) const;
  void on_lease_over(const LeaseOver& over);
  void attempt_failed(Trial& trial, const wire::Ended& ended);
  void set_aside(Trial& trial, const wire::Ended& ended);
  void release(Trial& trial, bool keep);
  bool any_lease() const;
  void drop_checkpoint(Trial& trial);
  std::filesystem::path checkpoint_of(TrialId id) const;

  // conductor_reports.cc
  void on_step(const StepDone& step);
  bool record(Trial& trial, const StepDone& step);
  void decide_upon(Trial& trial);
  void judge(Trial& trial, bool reached);
  void go_on(Trial& trial, const Verdict& verdict, bool reached);
  void stop_trial(Trial& trial, DecisionMaker maker, const char* action,
                  TrialState state, Reason reason, const std::string& why);
  void note_value(const Trial& trial, const StepReport& report);
  bool lacks_metric(Trial& trial, const StepReport& report);

  // conductor_final.cc
  void end_search();
  std::string causes_of_failure() const;
  bool final_is_done(const Trial& best);
  void begin_final(const Trial& best);
  void add_final(int index);
  void continue_search_training(Trial& final_trial, const Trial& best);
  void on_final_step(Trial& trial);
  void on_final_over(Trial& trial, const wire::Ended& ended);
  void advance_final();
  void finish_with_best(const std::string& why);
  int final_horizon() const;

  Study& study_;
  Sampler& sampler_;
  Scheduler& scheduler_;
  ProgressSink& sink_;
  const Clock& clock_;
  const CoordinatorOptions options_;
  const ObjectiveSpec objective_;
  const bool deterministic_;
  Records records_;
  BudgetMeter budget_;
  Fleet fleet_;

  Phase phase_ = Phase::search;
  StudyOutcome outcome_;
  std::vector<TrialRun> runs_;  // by id - 1
  std::set<TrialId> retry_;     // to be leased before the scheduler is asked
  std::map<TrialId, std::deque<FleetEvent>> pending_;  // deterministic mode
  std::vector<FleetEvent> events_;
  bool changed_ = true;       // since the scheduler said `wait`
  bool search_over_ = false;  // nothing new is started
  bool given_up_ = false;     // nor is anything gone on with
  std::string why_over_;
  int invalid_in_a_row_ = 0;
  std::string last_invalid_;
  TrialId best_ = 0;
  double best_value_ = 0;
  std::vector<TrialId> finals_;
  TrialId winner_ = 0;  // of the final trials; finishes, i.e. sees the test
  int stop_level_ = 0;
  MonoTime stop_deadline_{};
  MonoTime hold_until_{};  // no lease before
  MonoTime search_began_{};
  double searched_before_ = 0;
  MonoTime last_agent_{};
  MonoTime next_check_{};
  MonoTime next_tick_{};
  MonoTime next_save_{};
};

}  // namespace dtune
