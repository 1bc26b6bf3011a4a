// The thread of a worker on which trials run, so that messages are answered
// while a step computes. All sessions are made, run and destroyed on it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/cluster/node_files.h"
#include "dtune/cluster/protocol.h"
#include "dtune/cluster/warm_sessions.h"
#include "dtune/cluster/worker.h"

namespace dtune {

// Public methods are thread-safe and do not block, but for the destructor: it
// waits until the step in flight notices that it should stop.
class Compute {
 public:
  // `wake` is called, on the compute thread, when messages wait to be sent.
  Compute(const WorkerOptions& options, RunnerFactory make_runner,
          std::function<void()> wake);
  ~Compute();
  Compute(const Compute&) = delete;
  Compute& operator=(const Compute&) = delete;

  using Order = std::variant<control::Welcome, control::Assign, control::Extend,
                             control::Pause, control::Cut>;
  // Carried out in order, between steps; pause and cut stop the step in flight.
  void post(Order order);
  void acknowledged(const control::Ack& ack);

  // Messages for the coordinator, oldest first.
  std::vector<control::Message> take_messages();
  // Reports not yet acknowledged, for a coordinator that may have missed them.
  std::vector<control::Report> unacknowledged();
  control::Progress progress();

 private:
  void run();
  bool next_orders(std::deque<Order>& orders);
  void execute(Order& order);
  void start(const control::Assign& assign);
  std::unique_ptr<TrialSession> open_session(const control::Assign& assign);
  std::unique_ptr<TrialSession> resume_session(TrialAssignment assignment,
                                               const control::Assign& assign);
  TrialAssignment describe(const control::Assign& assign);
  RankInfo rank_of(const control::Assign& assign) const;
  void leave(TrialId trial, Attempt attempt, bool keep);
  void step();
  void wait_for_space();
  void report(StepReport done);
  bool keep_checkpoint(const control::Report& report);
  void travel(const char* phase, const std::function<void()>& transfer);
  void send_report(const control::Report& report);
  void finish();
  void fail(std::exception_ptr cause);
  void end(control::Ended ended);
  void send(control::Message message);
  void set_session(std::unique_ptr<TrialSession> session);
  void set_phase(const char* phase);
  bool released(const Order& order) const;

  const WorkerOptions options_;
  const RunnerFactory make_runner_;
  const std::function<void()> wake_;

  // Of the compute thread alone:
  std::unique_ptr<TrialRunner> runner_;
  control::Welcome study_;
  NodeFiles files_;
  WarmSessions warm_;
  bool active_ = false;
  control::Assign lease_;  // with paths of this node
  int target_ = 0;

  std::mutex mutex_;  // guards all below
  std::condition_variable ready_;
  std::deque<Order> orders_;
  std::vector<control::Message> messages_;
  std::deque<control::Report> unacknowledged_;
  std::unique_ptr<TrialSession> session_;  // changed by the thread, read by all
  TrialId current_trial_ = 0;
  Attempt current_attempt_ = 0;
  const char* phase_ = "idle";
  MonoTime step_began_;
  double last_step_seconds_ = 0;
  bool shutdown_ = false;

  std::atomic<bool> stop_{false};  // set under mutex_, read by sessions
  // Likewise, but not for a pause: what was trained is to be kept.
  std::atomic<bool> drop_{false};
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace dtune
