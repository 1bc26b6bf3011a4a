// A whole toy study in a folder: SQLite file, real coordinator, an agent
// process with its workers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cluster/toy.h"

#include "dtune/cluster/child_process.h"
#include "dtune/cluster/coordinator.h"
#include "dtune/comm/socket.h"
#include "dtune/store/trial_store.h"
#include "dtune/tuner/factory.h"

namespace dtune::toy {

// Remembers what the coordinator said; lets a test act on it.
class RecordingSink : public ProgressSink {
 public:
  void on_report(const Study& study, const Trial& trial,
                 const StepReport& report) override {
    ++reports;
    if (at_report) at_report(study, trial, report);
  }
  void on_state(const Study& /*study*/, const Trial& trial) override {
    if (at_state) at_state(trial);
  }
  void on_notice(const std::string& text) override { notices += text + "\n"; }
  void on_tick(const Study& study, const ClusterStatus& status) override {
    if (at_tick) at_tick(study, status);
  }

  int reports = 0;
  std::string notices;
  std::function<void(const Study&, const Trial&, const StepReport&)> at_report;
  std::function<void(const Trial&)> at_state;
  std::function<void(const Study&, const ClusterStatus&)> at_tick;
};

// The machine's clocks, set ahead by a test: what is to last for an hour is
// over at once, however slow the machine is.
class JumpingClock final : public Clock {
 public:
  MonoTime now() const override {
    return system_clock().now() + Duration(ahead_);
  }
  int64_t wall_ms() const override {
    return system_clock().wall_ms() + ahead_ / 1'000'000;
  }
  void jump(Duration by) { ahead_ += by.count(); }

 private:
  std::atomic<int64_t> ahead_ = 0;  // ns
};

class LocalStudy {
 public:
  // Loads the study of `folder`/study.db if there is one.
  LocalStudy(const std::filesystem::path& folder, const std::string& id,
             int slots, const Recipe& recipe, std::vector<Point> points);

  // Afterwards every decision of the study is taken again from its records;
  // throws where one differs.
  StudyOutcome run(const std::atomic<int>& stop);
  StudyOutcome run() {
    const std::atomic<int> never{0};
    return run(never);
  }

  // Validation and test of what the study has stored as its result.
  std::map<std::string, double> final_metrics() const;

  // Runs `act` when the first report of trial 1 comes, once.
  void at_first_report(std::function<void()> act);

  Study study;
  RecordingSink sink;
  CoordinatorOptions options;
  std::unique_ptr<TrialStore> store;
  std::unique_ptr<Scheduler> scheduler;
  // The agent's process; null before it is needed.
  std::unique_ptr<Child> agent;
  int agents_started = 0;
  const Clock* clock = &system_clock();  // the coordinator's
  // Called before it runs: it listens by now. May be empty.
  std::function<void(const Coordinator&)> at_start;
  bool replays = true;  // false: its records were not made by a coordinator
  SocketDirectory sockets;

 private:
  void ensure_agent();
  void check_replay();

  std::vector<Point> points_;
  ListSampler sampler_;
  const int slots_;
};

// Processes of the study, by their environment; waits for them to be gone.
std::vector<pid_t> leftovers(const std::string& study_id);
// To the worker of this slot; false where there is none just now.
bool signal_worker(const std::string& study_id, int slot, int signal);

}  // namespace dtune::toy
