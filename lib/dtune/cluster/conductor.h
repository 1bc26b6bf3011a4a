// The coordinator's mind: turns what the fleet says into decisions. One class,
// in several files: conductor.cc (loop), conductor_leases.cc (who runs what),
// conductor_ends.cc (leases that end), conductor_gangs.cc (trials that take
// several slots), conductor_copies.cc (copies of stragglers),
// conductor_reports.cc (what a report leads to), conductor_final.cc (the model
// to keep), conductor_status.cc (what is shown).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dtune/cluster/budget.h"
#include "dtune/cluster/checkpoints.h"
#include "dtune/cluster/coordinator.h"
#include "dtune/cluster/disk_watch.h"
#include "dtune/cluster/fleet.h"
#include "dtune/cluster/forecast.h"
#include "dtune/cluster/lease_files.h"
#include "dtune/cluster/records.h"
#include "dtune/cluster/retry_policy.h"
#include "dtune/gang/server.h"

namespace dtune {

// Not thread-safe: one thread makes it and calls run() once.
class Conductor {
 public:
  Conductor(Study& study, TrialStore& store, Sampler& sampler,
            Scheduler& scheduler, ProgressSink& sink, const Clock& clock,
            CoordinatorOptions options);
  StudyOutcome run(const std::atomic<int>& stop);
  std::string endpoint() const { return fleet_.endpoint(); }
  std::string remote_endpoint() const { return fleet_.remote_endpoint(); }

 private:
  enum class Phase { search, final, done };

  // Trials of which none has a step to report end the search, this many in a
  // row.
  static constexpr int kMaxFruitlessInARow = 100;

  struct Seat {
    size_t slot = 0;
    int member = 0;
  };

  // A second lease of a trial that straggles.
  struct Copy {
    size_t slot = 0;
    Attempt attempt = 0;
  };

  // What is known of a trial beyond its record, of this process alone.
  struct TrialRun {
    std::vector<Seat> seats;  // slots that hold its lease; a gang has several
    std::string gang;         // its last name at the server; "": one rank
    int members = 1;          // of the gang, when all are there
    std::set<int> evicted;    // members that the gang does without
    std::set<int> missed;     // members that were said to have left it
    std::set<size_t> lone;    // their slots: they get trials of their own
    std::optional<Copy> copy;
    Attempt last_attempt = 0;  // given out, to the trial or its copy
    AttemptHistory history;
    int steps_at_lease = 0;
    int reported = 0;    // the last step reported under this lease
    MonoTime began{};    // of the lease
    double seconds = 0;  // under leases that are over

    bool leased() const { return !seats.empty(); }
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
  void check_disk(MonoTime now);
  void on_full_disk(const std::string& why);
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
  ForecastFacts forecast_facts() const;
  bool is_replaced(const FleetSlot& slot) const;

  // conductor_leases.cc
  void fill();
  bool waits_in_vain() const;
  bool ask_scheduler(const std::vector<size_t>& slots);
  void start_trial(const Directive& directive,
                   const std::vector<size_t>& slots);
  bool lease(TrialId id, std::vector<size_t> slots, Reason reason);
  size_t preferred_slot(const Trial& trial, size_t otherwise) const;
  std::optional<TrialId> next_retry() const;
  int grant(const Trial& trial) const;
  int64_t outstanding_steps() const;
  control::Assign describe(const Trial& trial, int target,
                           const Seat& seat) const;
  void assign(size_t slot, control::Assign message);
  void close_files();
  bool any_lease() const;
  std::vector<TrialId> leased() const;
  std::filesystem::path checkpoint_of(const Trial& trial) const;

  // conductor_ends.cc
  void on_lease_over(const LeaseOver& over);
  void settle(Trial& trial, const LeaseOver& over);
  void lease_ended(TrialRun& run);
  void attempt_failed(Trial& trial, const control::Ended& ended);
  void set_aside(Trial& trial, const control::Ended& ended);
  void count_fruitless(const std::string& what, const std::string& why);
  void release(Trial& trial, bool keep);
  void drop_checkpoint(Trial& trial);

  // conductor_gangs.cc
  std::vector<size_t> free_slots() const;
  std::set<size_t> lone_slots() const;
  void open_gang(const Trial& trial, TrialRun& run);
  void close_gang(TrialRun& run);
  void take_seat(const TrialRun& run, const Seat& seat,
                 control::Assign& assign) const;
  bool goes_on_without(const Trial& trial, const TrialRun& run, int member,
                       const control::Ended& ended) const;
  void seat_left(Trial& trial, int member, const LeaseOver& over);
  void fill_vacancies();
  bool fill_vacancy(Trial& trial, size_t slot);
  void on_gang_events();
  void rank_is_back(TrialId id, int member);
  void check_gang_size(MonoTime now);
  std::string lack_of_slots() const;
  void show_gangs(ClusterStatus& status) const;

  // conductor_copies.cc
  double expected_step(const Trial& trial) const;
  double gain_of_copy(const Trial& trial) const;
  void copy_stragglers();
  void start_copy(Trial& trial, size_t index);
  bool is_copy(const Trial& trial, Attempt attempt) const;
  void promote_copy(Trial& trial);
  void drop_copy(const Trial& trial);

  // conductor_reports.cc
  void on_step(const StepDone& step);
  bool record(Trial& trial, const StepDone& done);
  void decide_upon(Trial& trial);
  void judge(Trial& trial, bool reached);
  void go_on(Trial& trial, const Verdict& verdict, bool reached);
  void stop_trial(Trial& trial, DecisionMaker maker, const char* action,
                  TrialState state, Reason reason, const std::string& why);
  bool note_checkpoint(Trial& trial, const control::Report& said);
  void note_value(const Trial& trial, const StepReport& report);
  void find_best();
  void keep_best_step(const Trial& trial, int step);
  bool lacks_metric(Trial& trial, const StepReport& report);

  // conductor_final.cc
  void end_search();
  bool wants_final() const;
  std::string causes_of_failure() const;
  bool final_is_done(const Trial& best);
  void begin_final(const Trial& best);
  void add_final(int index);
  Trial& new_final(uint64_t seed, int target_step, const std::string& detail,
                   const std::string& why);
  bool final_is_same_training() const;
  void continue_search_training(Trial& final_trial, const Trial& best);
  void copy_curve(const Trial& from, int steps, Trial& to);
  void on_final_step(Trial& trial);
  void on_final_over(Trial& trial, const control::Ended& ended);
  void advance_final();
  bool choose_model();
  bool choose_search_model();
  std::string describe_best() const;
  std::string describe_choice() const;
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
  Checkpoints checkpoints_;
  const std::unique_ptr<LeaseFiles> files_;  // null: all nodes share the disk
  Fleet fleet_;
  std::unique_ptr<GangServer> gangs_;  // where trials take several slots

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
  int fruitless_in_a_row_ = 0;
  TrialId best_ = 0;
  double best_value_ = 0;
  std::vector<TrialId> finals_;
  // The model that is shipped: this step of a final trial is tested and
  // written. 0: not chosen yet.
  TrialId winner_ = 0;
  int winner_step_ = 0;
  std::string chosen_;  // why, one sentence
  int stop_level_ = 0;
  MonoTime stop_deadline_{};
  DiskWatch disk_;
  bool database_is_full_ = false;  // and nothing else, as far as is known
  MonoTime search_began_{};
  double searched_before_ = 0;
  int64_t steps_before_ = 0;
  Forecaster forecaster_;
  MonoTime last_agent_{};
  MonoTime too_small_since_{};  // the cluster, for a gang
  std::string too_small_;       // in words, once they were said
  MonoTime next_check_{};
  MonoTime next_tick_{};
  MonoTime next_save_{};
};

}  // namespace dtune
