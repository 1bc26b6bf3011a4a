// The coordinator's side of the wire: which agents and slots there are, what
// each holds, which are silent. Knows leases, no samplers or schedulers. One
// class, in two files: agent_registry.cc (slots and leases),
// agent_registry_agents.cc (agents).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "dtune/base/turn_clock.h"
#include "dtune/cluster/agent_transport.h"
#include "dtune/cluster/protocol.h"
#include "dtune/cluster/step_limit.h"

namespace dtune {

enum class SlotState {
  down,       // its worker is being started
  idle,       // may be given a trial
  busy,       // holds a lease
  releasing,  // has to leave its trial and has not answered yet
  gone,       // will not come back
};

struct RegisteredSlot {
  size_t agent = 0;
  int number = 0;  // of the agent
  SlotState state = SlotState::down;
  TrialId trial = 0;  // busy, releasing
  Attempt attempt = 0;
  int granted = 0;         // the step up to which it may run
  bool at_target = false;  // it has reported that step and waits
  MonoTime heard{};        // last word of its worker
  MonoTime last_report{};  // or when the lease began
  // Of the step in flight, as far as is known; empty before the first one of a
  // session, and while the worker does not train (files, tests, a full disk).
  std::optional<MonoTime> step_began;
  MonoTime last_active{};  // it computed or wrote something, or reported
  uint64_t activity = 0;   // the last count that it gave
  MonoTime counted{};      // when it did
  MonoTime deadline{};     // releasing: then its process is killed
  bool killing = false;
  bool up = false;         // its worker is
  bool parted = false;     // it left by itself, as when its agent leaves
  std::string public_key;  // of its worker; allowed while it is up
  control::Progress progress;
};

struct RegisteredAgent {
  std::string identity;  // of its socket, now
  std::string name;      // unique; process_name() of a local process
  std::string key;       // that it proved to have; "": it is local
  std::string node;
  int64_t pid = 0;
  int threads = 1;
  size_t first_slot = 0;
  int slot_count = 0;
  int room = 0;        // slots in its place; those beyond slot_count are gone
  int generation = 0;  // times that it was lost
  bool present = false;
  bool remote = false;     // it came over the network
  bool leaving = false;    // its workers leave; its slots are given nothing
  bool dismissed = false;  // it was asked to leave
  std::string job;         // of an engine; "": none
  MonoTime joined{};
  MonoTime ends = MonoTime::max();  // then the engine ends it
  MonoTime heard{};
  Frames outbox;
};

struct AgentRegistryOptions {
  ListenOptions listen;
  // What carries messages instead of sockets at `listen`; null: those.
  std::shared_ptr<AgentTransport> transport;
  control::Welcome welcome;  // heartbeat, lease and grace are taken from it
  // Agents that came over listen.local are on this machine: their processes can
  // be looked at.
  bool local = false;
  // What others have to say; asked now and then. May be empty.
  std::function<std::vector<std::string>()> take_notices;
  // Adds what depends on where an agent came from. May be empty.
  std::function<void(control::Welcome&, bool remote)> complete_welcome;
  Duration step_time{0};  // limit of a step without a report; 0: measured
};

// What the coordinator is to act upon; `slot` is an index into slots().
struct SlotReady {
  size_t slot;
};
struct StepDone {
  size_t slot;
  control::Report report;
};
struct LeaseOver {  // the slot is free or down by now
  size_t slot;
  control::Ended ended;
};
struct Notice {
  std::string text;
};
using RegistryEvent = std::variant<SlotReady, StepDone, LeaseOver, Notice>;

// Not thread-safe; the owner polls. Nothing blocks but poll().
class AgentRegistry {
 public:
  // Binds: throws Error(comm), Error(temporary), Error(config).
  AgentRegistry(const AgentRegistryOptions& options, const Clock& clock);

  // Sends what is queued, then waits for messages up to `patience` or until
  // `wakeup` is notified, and appends what happened to `events`.
  void poll(Duration patience, Wakeup& wakeup,
            std::vector<RegistryEvent>& events);
  // Looks for agents, slots and steps that are overdue.
  void check(std::vector<RegistryEvent>& events);
  void flush();

  const std::vector<RegisteredSlot>& slots() const { return slots_; }
  const RegisteredAgent& agent_of(const RegisteredSlot& slot) const {
    return agents_[slot.agent];
  }
  // Of the slots' times: pauses of this process do not count.
  const Clock& clock() const { return turns_; }
  int present_agents() const;
  const std::vector<RegisteredAgent>& agents() const { return agents_; }
  // The longest of the latest steps; 0: none was seen.
  double longest_step() const { return step_limit_.longest(); }
  // That went without a bye, and may have left processes behind.
  int lost_agents() const { return lost_agents_; }
  std::string endpoint() const { return transport_->local_endpoint(); }
  // "": no other machine can join.
  std::string remote_endpoint() const { return transport_->remote_endpoint(); }

  // REQUIRES: the slot is idle. `message.slot` is filled in.
  void assign(size_t index, control::Assign message);
  void extend(size_t index, int target);
  // The slot leaves its trial: at once where it waits at its target, else it
  // is `releasing` until LeaseOver.
  // What has not left within `patience` (0: a lease) is killed.
  void release(size_t index, bool keep, Duration patience = Duration(0));
  void kill(size_t index, Reason reason, const std::string& why);
  void acknowledge(const control::Ack& ack, size_t slot);
  // The agent leaves, as at the end; its trials go elsewhere.
  void dismiss(size_t agent);
  // Ends all agents; `returns`: this coordinator comes back, as in
  // control::Stop.
  void stop(bool now, bool returns = false);

 private:
  void receive(Frames frames, std::vector<RegistryEvent>& events);
  void refuse(const std::string& identity, bool again, const std::string& why);
  void on_unreadable(const std::string& identity, const std::string& frame,
                     const std::string& why);
  void on_hello(const std::string& identity, control::Hello hello,
                std::vector<RegistryEvent>& events);
  std::string reason_full(const control::Hello& hello) const;
  bool is_crowded(int more_slots) const;
  std::optional<size_t> abandoned(const control::Hello& hello) const;
  size_t add_agent(const std::string& identity, const control::Hello& hello,
                   std::vector<RegistryEvent>& events);
  bool readmit(size_t index, const std::string& identity,
               const control::Hello& hello, std::vector<RegistryEvent>& events);
  std::string unused_node(const control::Hello& hello,
                          std::vector<RegistryEvent>& events) const;
  void allow_worker(size_t index, const std::string& public_key);
  void forbid_worker(size_t index);
  void report_notices(std::vector<RegistryEvent>& events);
  void on_message(size_t index, const control::Message& message,
                  std::vector<RegistryEvent>& events);
  void on_report(size_t index, const control::Report& report,
                 std::vector<RegistryEvent>& events);
  void on_ended(size_t index, const control::Ended& ended,
                std::vector<RegistryEvent>& events);
  void end_lease(size_t index, const control::Ended& ended,
                 std::vector<RegistryEvent>& events);
  bool is_parting(size_t index, const control::Ended& ended) const;
  std::optional<control::Ended> take_parting(size_t index);
  void settle_partings(std::vector<RegistryEvent>& events);
  void on_slot_up(size_t index, const control::SlotUp& up,
                  std::vector<RegistryEvent>& events);
  void on_slot_down(size_t index, const control::SlotDown& down,
                    std::vector<RegistryEvent>& events);
  void lose_agent(size_t index, const std::string& why, bool said_bye,
                  std::vector<RegistryEvent>& events);
  void lose_lease(size_t index, control::Outcome outcome, Reason reason,
                  const std::string& why, std::vector<RegistryEvent>& events);
  void leaves(size_t index);
  void stays(size_t index, std::vector<RegistryEvent>& events);
  SlotState free_state(const RegisteredSlot& slot) const;
  bool is_revoked(const RegisteredAgent& agent) const;
  void check_slot(size_t index, MonoTime now,
                  std::vector<RegistryEvent>& events);
  void welcome(size_t agent);
  void send(size_t agent, const control::Message& message);
  bool holds(const RegisteredSlot& slot, TrialId trial, Attempt attempt) const;
  void note_progress(RegisteredSlot& slot, const control::Progress& progress);

  const AgentRegistryOptions options_;
  const Duration heartbeat_;
  const Duration lease_;
  const Duration grace_;
  TurnClock turns_;  // where check() is late, that is not others' silence
  const std::shared_ptr<AgentTransport> transport_;
  std::vector<RegisteredAgent> agents_;
  std::vector<RegisteredSlot> slots_;
  std::map<std::string, size_t> by_identity_;
  MonoTime next_heartbeat_{};
  StepLimit step_limit_;
  int lost_agents_ = 0;
  int garbage_ = 0;  // messages that could not be read
  // Workers that ended by themselves. Why is known once all has been read that
  // came with it: an agent that stays says that the slot is down.
  std::vector<std::pair<size_t, control::Ended>> partings_;
  bool stopping_ = false;
  std::set<std::string> reported_refusals_;
};

}  // namespace dtune
