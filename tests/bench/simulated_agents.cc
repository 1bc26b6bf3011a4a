#include "simulated_agents.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <queue>
#include <thread>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "dtune/base/clock.h"
#include "dtune/base/random.h"
#include "dtune/cluster/protocol.h"
#include "dtune/comm/socket.h"

namespace dtune::bench {
namespace {

using std::chrono::milliseconds;

constexpr size_t kAgentsOfContext = 250;  // a context has at most 1,023 sockets

constexpr Duration kPause = milliseconds(2);

double milliseconds_of(Duration duration) { return 1e3 * to_seconds(duration); }

Latencies latencies_of(std::vector<double>& ms) {
  if (ms.empty()) return {};
  std::sort(ms.begin(), ms.end());
  return {ms[ms.size() / 2], ms[ms.size() * 99 / 100]};
}

struct Slot {
  TrialId trial = 0;  // 0: none
  Attempt attempt = 0;
  int step = 0;  // reported
  int target = 0;
  bool unacknowledged = false;
  MonoTime begun{};  // its step
  MonoTime sent{};
  MonoTime finished{};  // sent its trial's last report; zero: none
};

struct Agent {
  std::unique_ptr<Socket> socket;
  std::vector<Slot> slots;
  Frames outbox;
  bool there = false;
  bool over = false;
};

struct Due {
  MonoTime when{};
  size_t agent = 0;
  int slot = 0;
  bool operator>(const Due& other) const { return when > other.when; }
};

class Fleet {
 public:
  explicit Fleet(const SimulatedAgents& options)
      : options_(options), agents_(static_cast<size_t>(options.agents)) {
    for (size_t i = 0; i < agents_.size(); ++i) {
      if (i % kAgentsOfContext == 0) {
        contexts_.push_back(std::make_unique<SocketContext>());
      }
      agents_[i].slots.resize(static_cast<size_t>(options.slots));
      agents_[i].socket =
          std::make_unique<Socket>(*contexts_.back(), Socket::Kind::dealer);
      agents_[i].socket->connect(options.endpoint);
      say(i, control::Hello{.study_id = options.study_id,
                            .node = fmt::format("node{}", i),
                            .agent = fmt::format("simulated-{}", i),
                            .slots = options.slots,
                            .pid = 1});
    }
  }
  ~Fleet() { agents_.clear(); }  // before their contexts
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  AgentFigures run() {
    while (over_ < agents_.size()) {
      flush();
      wait();
      now_ = system_clock().now();
      for (size_t i = 0; i < agents_.size(); ++i) receive(i);
      report_due();
      send_heartbeats();
    }
    flush();
    figures_.seconds = to_seconds(last_ - first_);
    figures_.report = latencies_of(reports_);
    figures_.assignment = latencies_of(assignments_);
    return figures_;
  }

 private:
  void say(size_t agent, control::Message message) {
    agents_[agent].outbox.push_back(encode(std::move(message)));
  }

  void flush() {
    for (Agent& agent : agents_) {
      if (agent.outbox.empty() || !agent.socket->send(agent.outbox)) continue;
      agent.outbox.clear();
    }
  }

  // Polled without a pause, a thousand sockets take half of the two cores that
  // the coordinator needs.
  void wait() {
    const Duration since = system_clock().now() - now_;
    if (since < kPause) std::this_thread::sleep_for(kPause - since);
    PollSet polls;
    for (const Agent& agent : agents_) polls.add(*agent.socket);
    polls.wait(milliseconds(5));
  }

  void receive(size_t i) {
    while (const auto frames = agents_[i].socket->receive()) {
      for (const std::string& frame : *frames) {
        std::visit([&](const auto& message) { on(i, message); }, decode(frame));
      }
    }
  }

  template <class M>
  void on(size_t, const M&) {}

  void on(size_t i, const control::Welcome& welcome) {
    heartbeat_ = Duration(welcome.heartbeat_ns);
    agents_[i].there = true;
    for (int slot = 0; slot < options_.slots; ++slot) {
      say(i, control::SlotUp{.slot = slot, .pid = 1});
    }
  }

  void on(size_t i, const control::Assign& order) {
    Slot& slot = at(i, order.slot);
    if (first_ == MonoTime{}) first_ = now_;
    if (slot.finished != MonoTime{}) {
      assignments_.push_back(milliseconds_of(now_ - slot.finished));
    }
    slot = {.trial = order.trial,
            .attempt = order.attempt,
            .step = order.resume_step,
            .target = order.target};
    next_step(i, order.slot);
  }

  void on(size_t i, const control::Extend& order) {
    Slot& slot = at(i, order.slot);
    if (!holds(slot, order.trial, order.attempt)) return;
    const bool waits = slot.step >= slot.target && !slot.unacknowledged;
    slot.target = order.target;
    if (waits) next_step(i, order.slot);
  }

  void on(size_t i, const control::Ack& ack) {
    Slot& slot = at(i, ack.slot);
    const bool mine = holds(slot, ack.trial, ack.attempt) &&
                      slot.unacknowledged && ack.step >= slot.step;
    if (!mine) return;
    slot.unacknowledged = false;
    ++figures_.reports;
    last_ = now_;
    reports_.push_back(milliseconds_of(now_ - slot.sent));
    if (slot.step < slot.target) next_step(i, ack.slot);
  }

  void on(size_t i, const control::Pause& order) { leave(i, order); }
  void on(size_t i, const control::Cut& order) { leave(i, order); }
  template <class Order>
  void leave(size_t i, const Order& order) {
    Slot& slot = at(i, order.slot);
    if (!holds(slot, order.trial, order.attempt)) return;
    say(i, control::Ended{.slot = order.slot,
                          .trial = order.trial,
                          .attempt = order.attempt,
                          .steps = slot.step});
  }

  void on(size_t i, const control::Stop&) { part(i); }
  void on(size_t i, const control::Bye&) { part(i); }
  void part(size_t i) {
    if (std::exchange(agents_[i].over, true)) return;
    say(i, control::Bye{.why = "done"});
    ++over_;
  }

  Slot& at(size_t agent, int slot) {
    return agents_[agent].slots.at(static_cast<size_t>(slot));
  }
  static bool holds(const Slot& slot, TrialId trial, Attempt attempt) {
    return slot.trial == trial && slot.attempt == attempt;
  }

  // Steps take one half to one and a half of their mean, so that slots do not
  // march in step; the first of all begins anywhere in it.
  void next_step(size_t agent, int slot) {
    at(agent, slot).begun = now_;
    if (options_.step_seconds == 0) return report(agent, slot);
    const bool fresh = at(agent, slot).finished == MonoTime{} &&
                       at(agent, slot).sent == MonoTime{};
    const double share = rng_.uniform() + (fresh ? 0.0 : 0.5);
    due_.push(
        {now_ + from_seconds(share * options_.step_seconds), agent, slot});
  }

  void report_due() {
    while (!due_.empty() && due_.top().when <= now_) {
      const Due due = due_.top();
      due_.pop();
      report(due.agent, due.slot);
    }
  }

  void report(size_t agent, int number) {
    Slot& slot = at(agent, number);
    control::Report message{.slot = number,
                            .trial = slot.trial,
                            .attempt = slot.attempt,
                            .checkpointed = true};
    message.report.step = ++slot.step;
    message.report.metrics = {{"val_accuracy", rng_.uniform()},
                              {"val_loss", rng_.uniform()}};
    message.report.seconds = std::max(1.0, to_seconds(now_ - slot.begun));
    slot.sent = now_;
    slot.unacknowledged = true;
    if (slot.step >= slot.target) slot.finished = now_;
    say(agent, std::move(message));
  }

  void send_heartbeats() {
    if (now_ < next_heartbeat_) return;
    next_heartbeat_ = now_ + heartbeat_;
    for (size_t i = 0; i < agents_.size(); ++i) {
      if (!agents_[i].there) continue;
      for (int slot = 0; slot < options_.slots; ++slot) {
        say(i, control::Progress{.slot = slot,
                                 .trial = at(i, slot).trial,
                                 .attempt = at(i, slot).attempt,
                                 .phase = "training",
                                 .activity = ++activity_ * 1000});
      }
    }
  }

  const SimulatedAgents options_;
  std::vector<std::unique_ptr<SocketContext>> contexts_;
  std::vector<Agent> agents_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  Rng rng_{5};
  size_t over_ = 0;
  uint64_t activity_ = 0;
  Duration heartbeat_ = std::chrono::seconds(1);
  MonoTime next_heartbeat_{};
  MonoTime now_ = system_clock().now();
  MonoTime first_{};
  MonoTime last_{};
  AgentFigures figures_;
  std::vector<double> reports_;      // ms
  std::vector<double> assignments_;  // ms
};

}  // namespace

AgentFigures run_agents(const SimulatedAgents& options) {
  return Fleet(options).run();
}

}  // namespace dtune::bench
