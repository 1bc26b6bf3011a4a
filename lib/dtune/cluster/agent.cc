#include "dtune/cluster/agent.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/base/turn_clock.h"
#include "dtune/cluster/child_process.h"
#include "dtune/cluster/coordinator_link.h"
#include "dtune/cluster/join.h"
#include "dtune/cluster/slot_process.h"
#include "dtune/comm/socket.h"

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

class Agent {
 public:
  explicit Agent(const AgentOptions& options);
  int run(const std::atomic<int>& stop);

 private:
  void wait(MonoTime until);
  void from_coordinator(const std::string& frame);
  void from_worker(const std::string& identity, const std::string& frame);
  void on_welcome(const control::Welcome& welcome, const std::string& frame);
  void on_stop(const control::Stop& stop);
  void on_assign(const control::Assign& assign, const std::string& frame);
  void forward(int number, const std::string& frame);
  void say_hello();
  void lose_coordinator();
  void keep_alive(MonoTime now);
  void send(const control::Message& message) { send_raw(encode(message)); }
  void send_raw(std::string frame);
  void flush();
  MonoTime tick_slots(MonoTime now);
  void check_idle(MonoTime now);
  void begin_end(bool now, int code);
  void shut_down();
  SlotProcess* slot(int number);

  const AgentOptions options_;
  SlotOptions slot_options_;
  std::unique_ptr<Child> guard_;
  SocketDirectory directory_;
  SocketContext context_;
  const std::string name_;  // unique among all agents
  CoordinatorLink coordinator_;
  Socket workers_;
  Frames outbox_;  // to the coordinator
  std::map<int, Frames> to_workers_;
  std::map<int, std::string> identities_;  // slot -> worker's identity
  std::map<int, std::string> keys_;        // slot -> worker's public key
  std::deque<SlotProcess> slots_;
  control::Welcome welcome_;
  std::string welcome_frame_;
  std::string session_;  // of the coordinator; "": not welcome yet
  Duration heartbeat_;
  Duration lease_{std::chrono::seconds(15)};
  TurnClock turns_{lease_ / 2};  // a pause of our own is not others' silence
  MonoTime heard_;               // from the coordinator
  MonoTime began_;               // to look for a coordinator
  MonoTime ends_{};              // the engine ends it; {}: not known
  MonoTime last_busy_;
  Duration patience_;  // for finding one
  MonoTime next_hello_{};
  MonoTime next_heartbeat_{};
  MonoTime next_tick_{};        // of the slots
  bool slots_stirred_ = false;  // one of them wrote, ended or has to
  bool ending_ = false;
  bool end_now_ = false;
  int code_ = kExitOk;
  std::string parting_ = "stopped";  // why it leaves
};

Agent::Agent(const AgentOptions& options)
    : options_(options),
      name_(agent_name(options.curve.has_value())),
      coordinator_(options.endpoint, options.curve),
      workers_(context_, Socket::Kind::router),
      heartbeat_(options.heartbeat),
      patience_(options.join_timeout) {
  slot_options_.argv = options.worker_argv;
  slot_options_.endpoint = directory_.endpoint("agent");
  slot_options_.study_id = options.study_id;
  slot_options_.threads = options.threads_per_slot;
  slot_options_.slots = options.slots;
  slot_options_.devices = options.devices;
  slot_options_.grace = options.grace;
  slot_options_.log_line = options.log_line;
  workers_.bind(slot_options_.endpoint);
  if (!options.guard_argv.empty()) guard_ = start_guard(options.guard_argv);
  began_ = heard_ = last_busy_ = turns_.now();
  if (options.lifetime.count() > 0) ends_ = began_ + options.lifetime;
}

int Agent::run(const std::atomic<int>& stop) {
  while (!ending_) {
    turns_.turn();
    const MonoTime now = turns_.now();
    keep_alive(now);
    // Looking at processes costs system calls: only when there is a reason.
    if (slots_stirred_ || now >= next_tick_) next_tick_ = tick_slots(now);
    const MonoTime next = session_.empty() ? next_hello_ : next_tick_;
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
  const bool busy =
      std::any_of(slots_.begin(), slots_.end(),
                  [](const SlotProcess& s) { return s.holds_trial(); });
  if (busy || session_.empty()) last_busy_ = now;
  if (options_.idle.count() <= 0 || now - last_busy_ < options_.idle) return;
  parting_ = "it had no trial for " + format_duration(options_.idle);
  begin_end(false, kExitOk);
}

void Agent::keep_alive(MonoTime now) {
  if (session_.empty()) {
    if (now >= next_hello_) say_hello();
    if (now - began_ > patience_) {
      spdlog::error("{}: no coordinator answered within {}{}{}",
                    options_.endpoint, format_duration(patience_),
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
    spdlog::error("{}: the coordinator is gone", options_.endpoint);
    begin_end(true, kExitTemporary);
    return;
  }
  spdlog::warn("{}: the coordinator is gone; looking for it for {}",
               options_.endpoint, format_duration(options_.rejoin));
  session_.clear();
  outbox_.clear();
  began_ = turns_.now();
  patience_ = options_.rejoin;
  next_hello_ = began_;
  coordinator_.reconnect();
  // Workers leave what belonged to another session.
  control::Welcome none = welcome_;
  none.session = "none";
  for (const SlotProcess& s : slots_) {
    if (s.up()) forward(s.slot(), encode(none));
  }
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
  polls.add(workers_);
  size_t last = 1;
  for (const SlotProcess& s : slots_) {
    if (s.output() >= 0) last = polls.add(s.output());
    if (s.exit_descriptor() >= 0) last = polls.add(s.exit_descriptor());
  }
  polls.wait(std::min(until - turns_.now(), lease_ / 4));
  for (size_t i = 2; i <= last; ++i) {
    slots_stirred_ = slots_stirred_ || polls.ready(i);
  }
  try {
    coordinator_.check();
  } catch (const Error& e) {
    spdlog::error("{}", e.what());
    begin_end(true, exit_code(e.kind()));
  }
  while (auto frames = coordinator_.receive()) {
    heard_ = turns_.now();
    for (const std::string& frame : *frames) from_coordinator(frame);
  }
  while (auto frames = workers_.receive()) {
    for (size_t i = 1; i < frames->size(); ++i) {
      from_worker(frames->front(), (*frames)[i]);
    }
  }
  flush();
}

void Agent::from_coordinator(const std::string& frame) {
  control::Message message;
  try {
    message = decode(frame);
  } catch (const Error& e) {
    spdlog::warn("from the coordinator: {}", e.what());
    return;
  }
  if (const auto* welcome = std::get_if<control::Welcome>(&message)) {
    on_welcome(*welcome, frame);
  } else if (const auto* assign = std::get_if<control::Assign>(&message)) {
    on_assign(*assign, frame);
  } else if (const auto* kill = std::get_if<control::Kill>(&message)) {
    // Not the next lease, if this one has ended meanwhile.
    SlotProcess* s = slot(kill->slot);
    if (s != nullptr && s->holds(kill->trial, kill->attempt)) {
      s->kill(kill->reason, kill->why, turns_.now());
      slots_stirred_ = true;
    }
  } else if (const auto* stop = std::get_if<control::Stop>(&message)) {
    on_stop(*stop);
  } else if (const auto* bye = std::get_if<control::Bye>(&message)) {
    if (bye->again) {
      say_hello();
    } else {
      spdlog::error("the coordinator refuses this agent: {}", bye->why);
      begin_end(true, kExitConfig);
    }
  } else if (slot_of(message) >= 0) {
    forward(slot_of(message), frame);
  }
}

void Agent::on_welcome(const control::Welcome& welcome,
                       const std::string& frame) {
  if (!options_.study_id.empty() && welcome.study_id != options_.study_id) {
    spdlog::error("the coordinator runs another study: {}", welcome.study_id);
    begin_end(true, kExitConfig);
    return;
  }
  if (slot_options_.study_id != welcome.study_id) {
    slot_options_.study_id = welcome.study_id;
    for (SlotProcess& s : slots_) {  // those of another study's
      s.kill(Reason::user, "its study is over", turns_.now());
    }
  }
  welcome_ = welcome;
  welcome_frame_ = frame;
  heartbeat_ = Duration(welcome.heartbeat_ns);
  next_heartbeat_ = turns_.now();  // not when it was due before
  lease_ = Duration(welcome.lease_ns);
  turns_.set_longest(lease_ / 2);
  slot_options_.grace = Duration(welcome.grace_ns);
  slot_options_.memory_bytes =
      static_cast<uint64_t>(std::max<int64_t>(welcome.memory_mb, 0)) << 20;
  if (slots_.empty()) {
    kill_orphans(slot_options_.study_id);
    for (int i = 0; i < options_.slots; ++i) {
      slots_.emplace_back(i, slot_options_,
                          [this](const control::Message& m) { send(m); });
    }
    if (options_.curve) {
      spdlog::info("joined the study with {} slot{}", options_.slots,
                   options_.slots == 1 ? "" : "s");
    }
  }
  session_ = welcome.session;
  slots_stirred_ = true;
  for (const SlotProcess& s : slots_) {
    if (s.gone()) send(control::SlotDown{s.slot(), true, "given up before"});
    if (!s.up()) continue;
    forward(s.slot(), frame);
    send(control::SlotUp{s.slot(), s.pid(), keys_[s.slot()]});
  }
}

void Agent::on_stop(const control::Stop& stop) {
  if (options_.curve) {
    spdlog::info(stop.returns ? "the coordinator has to leave, and comes back"
                              : "the study's run is over");
  }
  begin_end(stop.now, stop.returns ? kExitTemporary : kExitOk);
}

void Agent::on_assign(const control::Assign& assign, const std::string& frame) {
  SlotProcess* s = slot(assign.slot);
  if (s != nullptr && s->up() && !s->dying()) {
    s->on_assign(assign);
    forward(assign.slot, frame);
    return;
  }
  send(SlotProcess::not_taken(assign));
}

void Agent::from_worker(const std::string& identity, const std::string& frame) {
  control::Message message;
  try {
    message = decode(frame);
  } catch (const Error& e) {
    spdlog::warn("from a worker: {}", e.what());
    return;
  }
  SlotProcess* s = slot(slot_of(message));
  if (s == nullptr || !s->alive()) return;
  if (const auto* up = std::get_if<control::SlotUp>(&message)) {
    if (up->pid != s->pid()) return;  // a late word of a worker that is dead
    identities_[s->slot()] = identity;
    keys_[s->slot()] = up->public_key;
    s->on_slot_up();
    forward(s->slot(), welcome_frame_);
  } else if (identities_[s->slot()] != identity) {
    return;
  }
  if (const auto* ended = std::get_if<control::Ended>(&message)) {
    s->on_ended(*ended);
  }
  send_raw(frame);
}

void Agent::forward(int number, const std::string& frame) {
  to_workers_[number].push_back(frame);
}

void Agent::flush() {
  if (!outbox_.empty() && coordinator_.send(outbox_)) outbox_.clear();
  for (auto& [number, frames] : to_workers_) {
    const auto identity = identities_.find(number);
    if (frames.empty() || identity == identities_.end()) continue;
    frames.insert(frames.begin(), identity->second);
    // A worker that is gone needs no messages: its slot's end is reported
    // apart.
    workers_.send(frames);
    frames.clear();
  }
}

MonoTime Agent::tick_slots(MonoTime now) {
  MonoTime next = now + std::chrono::seconds(1);
  slots_stirred_ = false;
  for (SlotProcess& s : slots_) {
    const bool was_up = s.up();
    next = std::min(next, s.tick(now));
    if (!was_up || s.up()) continue;
    identities_.erase(s.slot());
    to_workers_.erase(s.slot());
  }
  return next;
}

void Agent::begin_end(bool now, int code) {
  if (!ending_) code_ = code;
  ending_ = true;
  end_now_ = end_now_ || now;
}

// Asks, terminates, kills: each step gets `grace`; then says bye.
void Agent::shut_down() {
  for (SlotProcess& s : slots_) {
    s.close();
    if (s.up()) forward(s.slot(), encode(control::Stop{.now = end_now_}));
  }
  flush();
  const MonoTime began = turns_.now();
  bool terminated = false;
  const auto any_alive = [this] {
    return std::any_of(slots_.begin(), slots_.end(),
                       [](const SlotProcess& s) { return s.alive(); });
  };
  while (any_alive()) {
    turns_.turn();
    const MonoTime now = turns_.now();
    if (!terminated && (end_now_ || now - began > slot_options_.grace)) {
      for (SlotProcess& s : slots_) s.shut_down(end_now_, now);
      terminated = true;
    }
    if (now - began > 2 * slot_options_.grace + std::chrono::seconds(3)) {
      spdlog::error("a worker cannot be killed; leaving it behind");
      break;
    }
    const MonoTime next = tick_slots(now);
    flush();
    wait(std::min(next, now + milliseconds(20)));
  }
  send(control::Bye{false, parting_});
  flush();
}

SlotProcess* Agent::slot(int number) {
  if (number < 0 || static_cast<size_t>(number) >= slots_.size()) {
    return nullptr;
  }
  return &slots_[static_cast<size_t>(number)];
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
  try {
    become_subreaper();
    Agent agent(options);
    return agent.run(stop);
  } catch (const Error& e) {
    spdlog::error("agent: {}", e.what());
    return exit_code(e.kind());
  }
}

}  // namespace dtune
