// The coordinator's loop: turns what agents report into decisions. What it
// knows is kept by parts that own their state: LeaseBook (leases and their
// slots), TrialGangs (who belongs to a gang), BackupCopies (of stragglers),
// AttemptLog (how attempts ended), Incumbent (the best trial), FinalTraining
// (the model that is shipped), DiskWatch, SearchSession, SlotShortage,
// ReportBarrier, Forecaster. One class, in several files: coordinator_loop.cc
// (loop), coordinator_leases.cc, coordinator_ends.cc, coordinator_gangs.cc,
// coordinator_demand.cc, coordinator_copies.cc, coordinator_reports.cc,
// coordinator_final.cc, coordinator_status.cc.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dtune/cluster/agent_registry.h"
#include "dtune/cluster/attempt_log.h"
#include "dtune/cluster/backup_copies.h"
#include "dtune/cluster/budget.h"
#include "dtune/cluster/coordinator.h"
#include "dtune/cluster/disk_watch.h"
#include "dtune/cluster/final_training.h"
#include "dtune/cluster/forecast.h"
#include "dtune/cluster/incumbent.h"
#include "dtune/cluster/lease_book.h"
#include "dtune/cluster/lease_files.h"
#include "dtune/cluster/rank_log.h"
#include "dtune/cluster/records.h"
#include "dtune/cluster/repeats.h"
#include "dtune/cluster/report_barrier.h"
#include "dtune/cluster/search_session.h"
#include "dtune/cluster/slot_shortage.h"
#include "dtune/cluster/trial_gangs.h"
#include "dtune/cluster/winner.h"
#include "dtune/study/node_health.h"

namespace dtune {

// Not thread-safe: one thread makes it and calls run() once.
class Coordinator::Impl {
 public:
  Impl(Study& study, TrialStore& store, Sampler& sampler, Scheduler& scheduler,
       ProgressSink& sink, const Clock& clock, CoordinatorOptions options);
  StudyOutcome run(const std::atomic<int>& stop);
  std::string endpoint() const { return registry_.endpoint(); }
  std::string remote_endpoint() const { return registry_.remote_endpoint(); }

 private:
  enum class Phase { search, repeats, final, done };

  // coordinator_loop.cc
  void begin();
  void recover();
  void turn();
  void poll(Duration patience);
  void handle_events();
  void handle(RegistryEvent& event);
  void handle_barriers();
  bool settled() const;
  void send_acknowledgements();
  void check_clocks();
  void check_agents(MonoTime now);
  void check_disk(MonoTime now);
  void store_end(const std::atomic<int>& stop);
  void give_up_disk();
  void on_full_disk(const std::string& why);
  void on_stop(int level);
  void pause_all(Reason reason, const std::string& why);
  void advance();
  void end(StudyState state, const std::string& why);
  void stop_agents();
  void update_searched();
  void end_of_search(const std::string& why);

  // coordinator_status.cc
  void tick();
  ClusterStatus cluster_status();
  ForecastFacts forecast_facts() const;
  bool is_replaced(const RegisteredSlot& slot) const;

  // coordinator_leases.cc
  void fill();
  bool waits_in_vain() const;
  bool ask_scheduler(const std::vector<size_t>& slots);
  bool end_on_plateau();
  void free_checkpoints();
  void dismiss(const Dismissal& dismissal);
  std::optional<Dismissal> worst_paused() const;
  void start_trial(const Directive& directive,
                   const std::vector<size_t>& slots);
  bool lease(TrialId id, std::vector<size_t> slots, Reason reason);
  size_t preferred_slot(const Trial& trial, size_t otherwise) const;
  int grant(const Trial& trial) const;
  int64_t outstanding_steps() const;
  control::Assign describe(const Trial& trial, int target,
                           const LeasedSlot& held) const;
  void assign(size_t slot, control::Assign message);
  void close_files();
  bool any_lease() const;
  std::vector<TrialId> leased() const;

  // coordinator_ends.cc
  void on_lease_over(const LeaseOver& over);
  void settle(Trial& trial, const LeaseOver& over);
  void lease_ended(TrialId id);
  bool doubts_checkpoint(const Trial& trial, Reason reason) const;
  void attempt_failed(Trial& trial, const control::Ended& ended);
  void note_failure_of(const std::string& node);
  void set_aside(Trial& trial, const control::Ended& ended);
  void count_fruitless(const std::string& what, const std::string& why);
  void release(Trial& trial, bool keep);
  void drop_checkpoint(Trial& trial);

  // coordinator_gangs.cc
  bool rests(const RegisteredSlot& slot) const;
  std::vector<size_t> free_slots(size_t from) const;
  void open_gang(const Trial& trial);
  void member_left(Trial& trial, int member, const LeaseOver& over);
  void fill_vacancies();
  bool fill_vacancy(Trial& trial, size_t slot);
  void on_gang_events();
  void end_missing_rank(TrialId id, const GangEvent& closed);
  void rank_is_back(TrialId id, int member);
  void check_gang_size(MonoTime now);
  void show_gangs(ClusterStatus& status);

  // coordinator_demand.cc
  Duration margin() const;
  bool ends_soon(const RegisteredAgent& agent) const;
  bool leave_in_time(Trial& trial);
  void check_deadlines();
  bool is_busy(const RegisteredAgent& agent) const;
  Demand demand() const;
  int64_t startable_trials() const;

  // coordinator_copies.cc
  double gain_of_copy(const Trial& trial) const;
  void copy_stragglers();
  void start_copy(Trial& trial, size_t index);
  void promote_copy(Trial& trial);
  void drop_copy(const Trial& trial);

  // coordinator_reports.cc
  void on_step(const StepDone& step);
  void acknowledge(const StepDone& done);
  bool record(Trial& trial, const StepDone& done);
  void end_at_target(const Trial& trial);
  void decide_upon(Trial& trial);
  void judge(Trial& trial, bool reached);
  void go_on(Trial& trial, const Verdict& verdict, bool reached);
  void stop_trial(Trial& trial, DecisionMaker maker, const char* action,
                  TrialState state, Reason reason, const std::string& why);
  bool note_checkpoint(Trial& trial, const control::Report& said);
  void note_value(const Trial& trial, const StepReport& report);
  void keep_best_step(const Trial& trial, int step);
  bool lacks_metric(Trial& trial, const StepReport& report);

  // coordinator_final.cc
  void end_search();
  void begin_repeats(TrialId expected);
  void end_repeats();
  void name_winner(const Winner& winner);
  void ship_best();
  bool failures_alone_ended() const;
  std::string causes_of_failure() const;
  void begin_final();
  void on_final_step(Trial& trial);
  void on_final_over(Trial& trial, const control::Ended& ended);
  void advance_final();
  void finish_with_best();
  void finish_with(const FinalResult& result);

  Study& study_;
  Sampler& sampler_;
  Scheduler& scheduler_;
  ProgressSink& sink_;
  const Clock& clock_;
  const CoordinatorOptions options_;
  const ObjectiveSpec objective_;
  const bool deterministic_;
  Records records_;
  RankLog rank_log_;
  BudgetMeter budget_;
  Incumbent best_;
  Repeats repeats_;
  FinalTraining final_;
  const std::unique_ptr<LeaseFiles> files_;  // null: all nodes share the disk
  AgentRegistry registry_;
  LeaseBook leases_;
  AttemptLog attempts_;
  NodeHealth nodes_;
  BackupCopies copies_;
  TrialGangs gangs_;
  ReportBarrier barrier_;
  SearchSession session_;
  SlotShortage shortage_;
  Forecaster forecaster_;
  DiskWatch disk_;

  Phase phase_ = Phase::search;
  StudyOutcome outcome_;
  std::vector<RegistryEvent> events_;
  bool unfilled_ = false;     // fill() was cut short
  bool check_copies_ = true;  // whether a trial straggles
  bool changed_ = true;       // since the scheduler said `wait`
  bool search_over_ = false;  // nothing new is started
  bool given_up_ = false;     // and paused trials are not resumed
  std::string why_over_;
  int stop_level_ = 0;
  MonoTime stop_deadline_{};
  MonoTime last_agent_{};
  bool had_agent_ = false;
  MonoTime next_check_{};
  MonoTime next_tick_{};
  MonoTime next_save_{};
};

}  // namespace dtune
