// Which agents there are: joining, coming back, names, leaving.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "dtune/cluster/agent_registry.h"
#include "dtune/study/slots.h"

namespace dtune {
namespace {

// An agent that is refused tries again, and unknown machines try without end.
constexpr size_t kMaxReportedRefusals = 50;

// Bounds of what an allowed key, and all of them, can make the coordinator
// remember. A job's key (job_key.h) is that of all its agents.
constexpr int kMostAgentsOfKey = 1024;
constexpr int kMostSlotsOfKey = kMaxSlots;
constexpr size_t kMostAgents = 4096;
constexpr size_t kMostSlots = size_t{1} << 16;

}  // namespace

void AgentRegistry::refuse(const std::string& identity, bool again,
                           const std::string& why) {
  const int64_t wall_ms = std::max<int64_t>(turns_.wall_ms(), 0);
  transport_->send({identity, encode(control::Bye{again, why, wall_ms})});
}

void AgentRegistry::on_hello(const std::string& identity, control::Hello hello,
                             std::vector<RegistryEvent>& events) {
  // As its agent does (agent_workers.cc).
  if (!options_.welcome.may_fuse) hello.slots /= hello.seats;
  if (!hello.study_id.empty() && hello.study_id != options_.welcome.study_id) {
    refuse(identity, false,
           fmt::format("this coordinator runs study '{}', not '{}'",
                       options_.welcome.study_id, hello.study_id));
    return;
  }
  const auto same = std::find_if(
      agents_.begin(), agents_.end(),
      [&hello](const RegisteredAgent& a) { return a.name == hello.agent; });
  size_t index = static_cast<size_t>(same - agents_.begin());
  if (same == agents_.end()) {
    if (const std::string why = reason_full(hello); !why.empty()) {
      refuse(identity, false, why);
      return;
    }
    index = add_agent(identity, hello, events);
  } else if (!readmit(index, identity, hello, events)) {
    return;
  }
  RegisteredAgent& agent = agents_[index];
  agent.identity = identity;
  agent.present = true;
  agent.dismissed = false;
  agent.heard = turns_.now();
  agent.joined = agent.heard;
  agent.job = hello.job;
  agent.ends = hello.left_ns > 0 ? agent.heard + Duration(hello.left_ns)
                                 : MonoTime::max();
  by_identity_[identity] = index;
  welcome(index);
}

// An allowed key may not fill the coordinator's memory with agents, nor take
// the places of others.
std::string AgentRegistry::reason_full(const control::Hello& hello) const {
  const std::string& key = transport_->sender();
  int agents = 0;
  int64_t slots = 0;
  for (const RegisteredAgent& agent : agents_) {
    if (!agent.present || agent.key != key) continue;
    ++agents;
    slots += agent.slot_count;
  }
  if (!key.empty() && agents >= kMostAgentsOfKey) {
    return fmt::format("{} agents with this machine's key are here already",
                       agents);
  }
  if (!key.empty() && slots + hello.slots > kMostSlotsOfKey) {
    return fmt::format("agents with this machine's key have {} slots already",
                       slots);
  }
  if (abandoned(hello)) return "";
  if (is_crowded(hello.slots)) {
    return fmt::format("{} agents have {} slots already", agents_.size(),
                       slots_.size());
  }
  return "";
}

bool AgentRegistry::is_crowded(int more_slots) const {
  return agents_.size() >= kMostAgents ||
         slots_.size() + static_cast<size_t>(more_slots) > kMostSlots;
}

// The place of an agent that has left: one of the same key, so that a node that
// comes and goes takes no more than one; where there is no room for more
// places, any one.
std::optional<size_t> AgentRegistry::abandoned(
    const control::Hello& hello) const {
  const std::string& key = transport_->sender();
  const auto fits = [&hello](const RegisteredAgent& agent) {
    return !agent.present && agent.remote && agent.room >= hello.slots;
  };
  const auto own = std::find_if(
      agents_.begin(), agents_.end(), [&](const RegisteredAgent& agent) {
        return fits(agent) && !key.empty() && agent.key == key;
      });
  const auto found = own != agents_.end() || !is_crowded(hello.slots)
                         ? own
                         : std::find_if(agents_.begin(), agents_.end(), fits);
  if (found == agents_.end()) return std::nullopt;
  return static_cast<size_t>(found - agents_.begin());
}

size_t AgentRegistry::add_agent(const std::string& identity,
                                const control::Hello& hello,
                                std::vector<RegistryEvent>& events) {
  const auto place = abandoned(hello);
  if (!place) {
    RegisteredAgent agent;
    agent.first_slot = slots_.size();
    agent.room = hello.slots;
    agents_.push_back(std::move(agent));
    slots_.resize(slots_.size() + static_cast<size_t>(hello.slots));
  }
  const size_t index = place.value_or(agents_.size() - 1);
  RegisteredAgent& agent = agents_[index];
  agent.slot_count = hello.slots;
  agent.name = hello.agent;
  agent.node = unused_node(hello, events);
  agent.pid = hello.pid;
  agent.threads = hello.threads;
  agent.remote = !transport_->is_local(identity);
  agent.key = transport_->sender();
  if (agent.remote) {
    events.push_back(
        Notice{fmt::format("node {} has joined with {} slot{}", agent.node,
                           hello.slots, hello.slots == 1 ? "" : "s")});
  }
  for (int i = 0; i < hello.slots; ++i) {
    RegisteredSlot fresh;
    fresh.agent = index;
    fresh.number = i;
    slots_[agent.first_slot + static_cast<size_t>(i)] = fresh;
  }
  return index;
}

// False where it is another.
bool AgentRegistry::readmit(size_t index, const std::string& identity,
                            const control::Hello& hello,
                            std::vector<RegistryEvent>& events) {
  RegisteredAgent& agent = agents_[index];
  if (agent.key != transport_->sender() || agent.slot_count != hello.slots ||
      agent.remote == transport_->is_local(identity)) {
    refuse(
        identity, false,
        fmt::format("an agent of the name '{}' is here already", hello.agent));
    events.push_back(Notice{
        fmt::format("refused a second agent of the name '{}' ({}), whose key "
                    "or slots are not those of the first",
                    hello.agent, hello.node)});
    return false;
  }
  if (agent.present && agent.identity != identity) {
    if (agent.remote) {
      // What was on its way when the connection broke is lost, and it is
      // unknown what that was: its leases begin anew, from their checkpoints.
      lose_agent(index, "its connection broke", false, events);
    } else {
      by_identity_.erase(agent.identity);
    }
  }
  if (!agent.present) {
    events.push_back(Notice{fmt::format("node {} is back", agent.node)});
    for (int i = 0; i < agent.slot_count; ++i) {
      slots_[agent.first_slot + static_cast<size_t>(i)].state = SlotState::down;
    }
  }
  return true;
}

// People tell nodes by their names: each is given once.
std::string AgentRegistry::unused_node(
    const control::Hello& hello, std::vector<RegistryEvent>& events) const {
  const std::string& node = hello.node;
  const auto taken = [this](const std::string& name) {
    return std::any_of(agents_.begin(), agents_.end(),
                       [&name](const RegisteredAgent& a) {
                         return a.present && a.node == name;
                       });
  };
  std::string name = node;
  for (int i = 2; taken(name); ++i) name = fmt::format("{}#{}", node, i);
  if (name != node && hello.job.empty()) {
    events.push_back(Notice{fmt::format(
        "another agent of a node '{0}' has joined; it is shown as '{1}' (name "
        "them apart with: dtune agent --node NAME)",
        node, name)});
  }
  return name;
}

// Workers reach the gang server and the like by themselves.
void AgentRegistry::allow_worker(size_t index, const std::string& public_key) {
  const auto& security = options_.listen.security;
  if (!security || !agents_[slots_[index].agent].remote) return;
  forbid_worker(index);
  // A known key belongs to another worker, which would lose it with this one.
  if (!is_curve_key(public_key) || security->allowed->contains(public_key)) {
    return;
  }
  security->allowed->add(public_key);
  slots_[index].public_key = public_key;
}

void AgentRegistry::forbid_worker(size_t index) {
  std::string& key = slots_[index].public_key;
  if (!key.empty()) options_.listen.security->allowed->remove(key);
  key.clear();
}

void AgentRegistry::welcome(size_t agent) {
  control::Welcome message = options_.welcome;
  // An agent that was given up starts anew: its leases have other holders.
  message.session += fmt::format(".{}", agents_[agent].generation);
  if (options_.complete_welcome) {
    options_.complete_welcome(message, agents_[agent].remote);
  }
  send(agent, message);
}

void AgentRegistry::lose_agent(size_t index, const std::string& why,
                               bool said_bye,
                               std::vector<RegistryEvent>& events) {
  RegisteredAgent& agent = agents_[index];
  if (!agent.present) return;
  agent.present = agent.leaving = false;
  if (!said_bye) ++lost_agents_;
  ++agent.generation;
  agent.outbox.clear();
  by_identity_.erase(agent.identity);
  // The trials of an agent that leaves in good order have not failed.
  const auto outcome =
      said_bye ? control::Outcome::temporary : control::Outcome::failed;
  for (int i = 0; i < agent.slot_count; ++i) {
    const size_t slot = agent.first_slot + static_cast<size_t>(i);
    take_parting(slot);  // said already, or about to be
    lose_lease(slot, outcome, Reason::node_lost, why, events);
    forbid_worker(slot);
    slots_[slot].state = SlotState::gone;
    slots_[slot].up = slots_[slot].parted = false;
    slots_[slot].progress = {};
  }
}

// It asks one worker after the other: the rest is not to be given anything.
void AgentRegistry::leaves(size_t index) {
  RegisteredAgent& agent = agents_[index];
  agent.leaving = true;
  for (int i = 0; i < agent.slot_count; ++i) {
    RegisteredSlot& slot = slots_[agent.first_slot + static_cast<size_t>(i)];
    if (slot.state == SlotState::idle) slot.state = SlotState::down;
  }
}

void AgentRegistry::dismiss(size_t agent) {
  if (!agents_[agent].present || agents_[agent].dismissed) return;
  agents_[agent].dismissed = true;
  leaves(agent);
  send(agent, control::Stop{});
}

// It was not leaving: a worker that ended by itself is up again.
void AgentRegistry::stays(size_t index, std::vector<RegistryEvent>& events) {
  RegisteredAgent& agent = agents_[index];
  agent.leaving = false;
  for (int i = 0; i < agent.slot_count; ++i) {
    const size_t slot = agent.first_slot + static_cast<size_t>(i);
    slots_[slot].parted = false;
    if (slots_[slot].state != SlotState::down || !slots_[slot].up) continue;
    slots_[slot].state = SlotState::idle;
    events.push_back(SlotReady{slot});
  }
}

void AgentRegistry::report_notices(std::vector<RegistryEvent>& events) {
  if (options_.take_notices) {
    for (std::string& text : options_.take_notices()) {
      events.push_back(Notice{std::move(text)});
    }
  }
  for (std::string& text : transport_->take_notices()) {
    events.push_back(Notice{std::move(text)});
  }
  if (!options_.listen.security) return;
  for (const Refusal& refusal :
       options_.listen.security->allowed->take_refusals()) {
    if (reported_refusals_.size() >= kMaxReportedRefusals) break;
    if (!reported_refusals_.insert(refusal.address + refusal.public_key)
             .second) {
      continue;
    }
    events.push_back(Notice{fmt::format(
        "{} was not let in: its key {} is not allowed here (agents join with "
        "a token: dtune agent --token-file)",
        refusal.address, short_key(refusal.public_key))});
  }
}

}  // namespace dtune
