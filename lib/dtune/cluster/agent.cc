#include "dtune/cluster/agent.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/base/turn_clock.h"
#include "dtune/cluster/agent_workers.h"
#include "dtune/cluster/child_process.h"
#include "dtune/cluster/control_group.h"
#include "dtune/cluster/coordinator_link.h"
#include "dtune/cluster/join.h"
#include "dtune/cluster/log.h"
#include "dtune/comm/batches.h"
#include "dtune/comm/socket.h"
#include "dtune/study/slots.h"

namespace dtune {
namespace {

using std::chrono::milliseconds;

constexpr Duration kHelloInterval = std::chrono::seconds(1);

std::unique_ptr<Child> start_guard(std::vector<std::string> argv) {
  argv.insert(argv.end(), {"--agent", process_name(getpid())});
  return std::make_unique<Child>(SpawnOptions{.argv = std::move(argv),
                                              .death_signal = 0,
                                              .capture = true,
                                              .merge = true,
                                              .feed = true});
}

SlotOptions slot_options(const AgentOptions& options,
                         const std::string& endpoint) {
  return {.argv = options.worker_argv,
          .endpoint = endpoint,
          .study_id = options.study_id,
          .threads = options.threads_per_slot,
          .slots = options.slots,
          .seats = options.seats,
          .devices = options.devices,
          .grace = options.grace,
          .log_line = options.log_line};
}

class Agent {
 public:
  explicit Agent(const AgentOptions& options);
  int run(const std::atomic<int>& stop);

 private:
  void wait(MonoTime until);
  void from_coordinator(const std::string& frame);
  void on_welcome(const control::Welcome& welcome, const std::string& frame);
  void on_stop(const control::Stop& stop);
  void say_hello();
  void lose_coordinator();
  void keep_alive(MonoTime now);
  void send(const control::Message& message) { send_raw(encode(message)); }
  void send_raw(std::string frame);
  void flush();
  void check_idle(MonoTime now);
  void begin_end(bool now, int code);
  void shut_down();

  const AgentOptions options_;
  std::unique_ptr<Child> guard_;
  SocketDirectory directory_;
  SocketContext context_;
  const std::string name_;  // unique among all agents
  CoordinatorLink coordinator_;
  AgentWorkers workers_;
  Frames outbox_;  // to the coordinator
  bool joined_ = false;
  std::string session_;  // of the coordinator; "": not welcome yet
  Duration heartbeat_;
  Duration grace_;
  Duration lease_{std::chrono::seconds(15)};
  TurnClock turns_{lease_ / 2};  // a pause of our own is not others' silence
  MonoTime heard_;               // from the coordinator
  MonoTime began_;               // to look for a coordinator
  MonoTime ends_{};              // the engine ends it; {}: not known
  MonoTime last_busy_;
  Duration patience_;  // for finding one
  MonoTime next_hello_{};
  MonoTime next_heartbeat_{};
  bool ending_ = false;
  bool end_now_ = false;
  int code_ = kExitOk;
  std::string parting_ = "stopped";  // why it leaves
};

Agent::Agent(const AgentOptions& options)
    : options_(options),
      name_(agent_name(options.curve.has_value())),
      coordinator_(options.endpoint, options.curve),
      workers_(context_, slot_options(options, directory_.endpoint("agent")),
               [this](std::string frame) { send_raw(std::move(frame)); }),
      heartbeat_(options.heartbeat),
      grace_(options.grace),
      patience_(options.join_timeout) {
  if (!options.guard_argv.empty()) guard_ = start_guard(options.guard_argv);
  began_ = heard_ = last_busy_ = turns_.now();
  if (options.lifetime.count() > 0) ends_ = began_ + options.lifetime;
}

int Agent::run(const std::atomic<int>& stop) {
  while (!ending_) {
    turns_.turn();
    const MonoTime now = turns_.now();
    keep_alive(now);
    if (workers_.due(now)) workers_.tick(now);
    const MonoTime next = session_.empty() ? next_hello_ : workers_.next_tick();
    flush();
    wait(std::min(next, next_heartbeat_));
    check_idle(turns_.now());
    if (stop != 0) begin_end(stop > 1, kExitTemporary);
  }
  shut_down();
  return code_;
}

// An engine gets back what trials have no use for.
void Agent::check_idle(MonoTime now) {
  if (workers_.hold_trial() || session_.empty()) last_busy_ = now;
  if (options_.idle.count() <= 0 || now - last_busy_ < options_.idle) return;
  parting_ = "it had no trial for " + format_duration(options_.idle);
  begin_end(false, kExitOk);
}

void Agent::keep_alive(MonoTime now) {
  if (session_.empty()) {
    if (now >= next_hello_) say_hello();
    if (now - began_ > patience_) {
      log_error("{}: no coordinator answered within {}{}{}", options_.endpoint,
                format_duration(patience_),
                coordinator_.trouble().empty() ? "" : ": ",
                coordinator_.trouble());
      begin_end(true, kExitTemporary);
    }
  } else if (now - heard_ > lease_) {
    lose_coordinator();
  }
  if (now >= next_heartbeat_) {
    if (!session_.empty() && outbox_.empty()) send(control::Heartbeat{});
    next_heartbeat_ = now + heartbeat_;
  }
}

void Agent::lose_coordinator() {
  if (options_.rejoin.count() <= 0) {
    log_error("{}: the coordinator is gone", options_.endpoint);
    begin_end(true, kExitTemporary);
    return;
  }
  log_warning("{}: the coordinator is gone; looking for it for {}",
              options_.endpoint, format_duration(options_.rejoin));
  session_.clear();
  outbox_.clear();
  began_ = turns_.now();
  patience_ = options_.rejoin;
  next_hello_ = began_;
  coordinator_.reconnect();
  workers_.leave_session();
}

// Without a coordinator nothing can be reported; the next one starts anew.
void Agent::send_raw(std::string frame) {
  if (!session_.empty()) outbox_.push_back(std::move(frame));
}

void Agent::say_hello() {
  control::Hello hello;
  hello.study_id = options_.study_id;
  hello.node = options_.node.empty() ? host_name() : options_.node;
  hello.agent = name_;
  hello.slots = options_.slots;
  hello.seats = options_.seats;
  hello.threads = options_.threads_per_slot;
  hello.pid = getpid();
  hello.job = options_.job;
  if (ends_ != MonoTime{}) {
    hello.left_ns = std::max<int64_t>((ends_ - turns_.now()).count(), 1);
  }
  if (session_.empty()) outbox_.clear();  // the last one still waits there
  outbox_.push_back(encode(hello));
  next_hello_ = turns_.now() + kHelloInterval;
}

void Agent::wait(MonoTime until) {
  PollSet polls;
  polls.add(coordinator_.socket());
  workers_.add_to(polls);
  polls.wait(std::min(until - turns_.now(), lease_ / 4));
  workers_.look(polls);
  try {
    coordinator_.check();
  } catch (const Error& e) {
    log_error("{}", e.what());
    begin_end(true, exit_code(e.kind()));
  }
  while (auto frames = coordinator_.receive()) {
    heard_ = turns_.now();
    for (const std::string& frame : *frames) from_coordinator(frame);
  }
  workers_.receive();
  flush();
}

void Agent::from_coordinator(const std::string& frame) {
  control::Message message;
  try {
    message = decode(frame);
  } catch (const Error& e) {
    log_warning("from the coordinator: {}", e.what());
    return;
  }
  if (const auto* welcome = std::get_if<control::Welcome>(&message)) {
    on_welcome(*welcome, frame);
  } else if (const auto* assign = std::get_if<control::Assign>(&message)) {
    workers_.on_assign(*assign, frame);
  } else if (const auto* kill = std::get_if<control::Kill>(&message)) {
    workers_.on_kill(*kill, turns_.now());
  } else if (const auto* stop = std::get_if<control::Stop>(&message)) {
    on_stop(*stop);
  } else if (const auto* bye = std::get_if<control::Bye>(&message)) {
    if (bye->again) {
      say_hello();
    } else {
      log_error("the coordinator refuses this agent: {}", bye->why);
      begin_end(true, kExitConfig);
    }
  } else if (slot_of(message) >= 0) {
    workers_.forward(slot_of(message), frame);
  }
}

void Agent::on_welcome(const control::Welcome& welcome,
                       const std::string& frame) {
  if (!options_.study_id.empty() && welcome.study_id != options_.study_id) {
    log_error("the coordinator runs another study: {}", welcome.study_id);
    begin_end(true, kExitConfig);
    return;
  }
  if (!workers_.suit(welcome)) {
    log_warning(
        "trials of this study are not fused as those of the one "
        "before: the agent has to start anew");
    begin_end(true, kExitTemporary);
    return;
  }
  heartbeat_ = Duration(welcome.heartbeat_ns);
  next_heartbeat_ = turns_.now();  // not when it was due before
  lease_ = Duration(welcome.lease_ns);
  turns_.set_longest(lease_ / 2);
  grace_ = Duration(welcome.grace_ns);
  session_ = welcome.session;
  workers_.on_welcome(welcome, frame, turns_.now());
  if (!joined_ && options_.curve) {
    log_info("joined the study with {} slot{}", workers_.slots(),
             workers_.slots() == 1 ? "" : "s");
  }
  joined_ = true;
}

void Agent::on_stop(const control::Stop& stop) {
  if (options_.curve) {
    log_line(LogLevel::info,
             stop.returns
                 ? "the coordinator is stopping, and will be started again"
                 : "the study's run is over");
  }
  begin_end(stop.now, stop.returns ? kExitTemporary : kExitOk);
}

void Agent::flush() {
  send_batches(outbox_, "", [this](const Frames& batch) {
    return coordinator_.send(batch);
  });
  workers_.flush();
}

void Agent::begin_end(bool now, int code) {
  if (!ending_) code_ = code;
  ending_ = true;
  end_now_ = end_now_ || now;
}

// Asks, terminates, kills: each step gets `grace`; then says bye.
void Agent::shut_down() {
  workers_.close(end_now_);
  flush();
  const MonoTime began = turns_.now();
  bool terminated = false;
  while (workers_.alive()) {
    turns_.turn();
    const MonoTime now = turns_.now();
    if (!terminated && (end_now_ || now - began > grace_)) {
      workers_.shut_down(end_now_, now);
      terminated = true;
    }
    if (now - began > 2 * grace_ + std::chrono::seconds(3)) {
      log_error("a worker cannot be killed; leaving it behind");
      break;
    }
    workers_.tick(now);
    flush();
    wait(std::min(workers_.next_tick(), now + milliseconds(20)));
  }
  send(control::Bye{false, parting_});
  flush();
}

}  // namespace

int run_guard(const std::string& agent) {
  std::array<char, 64> text;
  ssize_t size = 0;
  do {
    size = read(STDIN_FILENO, text.data(), text.size());
  } while (size > 0 || (size < 0 && errno == EINTR));
  // Workers die with their agent, but not all at the same moment.
  constexpr int kRounds = 5;
  for (int i = 0; i < kRounds; ++i) {
    end_groups_of(agent);
    kill_marked({"DTUNE_AGENT=" + agent});
    std::this_thread::sleep_for(milliseconds(100));
  }
  return kExitOk;
}

int run_agent(const AgentOptions& options, const std::atomic<int>& stop) {
  if (options.slots < 1 || options.slots > kMaxSlots) {
    throw Error(ErrorKind::config,
                fmt::format("{} slots (1 to {})", options.slots, kMaxSlots));
  }
  DTUNE_CHECK(options.seats >= 1 && options.slots % options.seats == 0);
  try {
    become_subreaper();
    Agent agent(options);
    return agent.run(stop);
  } catch (const Error& e) {
    log_error("agent: {}", e.what());
    return exit_code(e.kind());
  }
}

}  // namespace dtune
