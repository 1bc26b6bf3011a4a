// A slot as its agent sees it: the worker process, what it runs, how it is
// ended and started again.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtune/cluster/child_process.h"
#include "dtune/cluster/control_group.h"
#include "dtune/cluster/out_of_memory.h"
#include "dtune/cluster/protocol.h"

namespace dtune {

// How the workers of an agent are started; the same for all its slots. Each
// worker is a process that has `seats` of the slots, in their order: one, or
// those whose trials it trains at the same time.
struct SlotOptions {
  std::vector<std::string> argv;  // "--slot <k>" and the rest are appended
  std::string endpoint;           // of the agent
  std::string study_id;
  int threads = 1;
  int slots = 1;                     // of the agent; a multiple of seats
  int seats = 1;                     // slots of one process
  std::vector<std::string> devices;  // AgentOptions
  Duration grace{0};
  uint64_t memory_bytes = 0;  // of one slot; 0: no cap
  std::function<void(int slot, const std::string& line)> log_line;
};

// Not thread-safe; nothing blocks but the destructor (two seconds at most).
class SlotProcess {
 public:
  // What has to be reported to the coordinator.
  using Send = std::function<void(const control::Message&)>;

  // `number`: of the process, from 0; its first slot is number * seats.
  SlotProcess(int number, const SlotOptions& options, Send send);

  std::vector<int> slots() const;     // all that it has
  std::vector<int> slots_up() const;  // whose seats are up
  // For polling; -1 where there is none.
  int output() const { return child_ ? child_->out() : -1; }
  int exit_descriptor() const {
    return child_ ? child_->exit_descriptor() : -1;
  }
  bool alive() const { return child_ != nullptr; }
  bool up(int slot) const { return seat(slot).up; }
  bool dying() const { return dying_; }  // it was killed
  bool holds(int slot, TrialId trial, Attempt attempt) const {
    return seat(slot).trial == trial && seat(slot).attempt == attempt;
  }
  bool holds_trial() const;
  // It will not be started again, since it never came up.
  bool gone() const { return gone_; }
  pid_t pid() const { return child_ ? child_->pid() : -1; }

  // The answer to an assignment that came while the worker was being restarted:
  // not counted as a failure.
  static control::Ended not_taken(const control::Assign& assign);

  void on_slot_up(int slot);
  void on_assign(const control::Assign& assign);
  void on_ended(const control::Ended& ended);
  // The worker hangs: SIGTERM, after `grace` SIGKILL. `slot`: whose trial is
  // the cause, so that others do not count it as a failure; -1: all.
  void kill(Reason reason, const std::string& why, MonoTime now, int slot = -1);
  // From now on it is not started again.
  void close() { closing_ = true; }
  // As kill, for good: it is not started again. `hard`: SIGKILL at once.
  void shut_down(bool hard, MonoTime now);

  // Reads output, notices the end, escalates, starts (again). Returns the next
  // time at which it is to be called even if nothing happens.
  MonoTime tick(MonoTime now);

 private:
  struct Seat {
    bool up = false;
    TrialId trial = 0;  // the lease it holds; 0: none
    Attempt attempt = 0;
  };
  int first_slot() const { return number_ * options_.seats; }
  Seat& seat(int slot) { return seats_.at(size_t(slot - first_slot())); }
  const Seat& seat(int slot) const {
    return seats_.at(size_t(slot - first_slot()));
  }
  uint64_t memory_bytes() const {
    return options_.memory_bytes * seats_.size();
  }
  void spawn(MonoTime now);
  void read_output();
  void take_lines(bool all);
  void check_memory(MonoTime now);
  void escalate(MonoTime now);
  void on_exit(const ExitStatus& status, MonoTime now);
  control::Ended explain(const ExitStatus& status, int slot) const;
  void give_up(const std::string& why);

  const int number_;
  const SlotOptions& options_;
  const Send send_;
  const ControlGroup group_;  // of the worker and what it starts
  std::unique_ptr<Child> child_;
  std::vector<Seat> seats_;
  bool closing_ = false;
  bool gone_ = false;
  int failed_starts_ = 0;
  MonoTime start_at_{};
  MonoTime kill_at_{};
  bool dying_ = false;
  MonoTime next_memory_check_{};
  OutOfMemoryKills kernel_kills_;
  std::string partial_line_;
  std::string tail_;                         // the last lines that it wrote
  std::optional<control::Kill> kill_order_;  // its slot -1: all
};

}  // namespace dtune
