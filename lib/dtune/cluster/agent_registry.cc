#include "dtune/cluster/agent_registry.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/cluster/child_process.h"
#include "dtune/comm/batches.h"

namespace dtune {
namespace {

// Of the time between two words of a worker: less work than that is what its
// threads do to wait.
constexpr double kLeastWork = 0.02;
constexpr int kGarbageNotices = 3;
// Messages that wait for an agent; an idle one is sent a heartbeat now and
// then, a busy one some messages a step.
constexpr size_t kMaxUnsent = 20'000;

}  // namespace

AgentRegistry::AgentRegistry(const AgentRegistryOptions& options,
                             const Clock& clock)
    : options_(options),
      heartbeat_(options.welcome.heartbeat_ns),
      lease_(options.welcome.lease_ns),
      grace_(options.welcome.grace_ns),
      turns_(lease_ / 2, clock),
      transport_(options.transport ? options.transport
                                   : listen_for_agents(options.listen)),
      step_limit_(options.step_time) {}

void AgentRegistry::poll(Duration patience, Wakeup& wakeup,
                         std::vector<RegistryEvent>& events) {
  flush();
  transport_->poll(patience, wakeup,
                   [&](Frames frames) { receive(std::move(frames), events); });
  settle_partings(events);
}

void AgentRegistry::receive(Frames frames, std::vector<RegistryEvent>& events) {
  const std::string identity = frames.front();
  for (size_t i = 1; i < frames.size(); ++i) {
    control::Message message;
    try {
      message = decode(frames[i]);
    } catch (const Error& e) {
      if (++garbage_ <= kGarbageNotices) {
        events.push_back(Notice{fmt::format("ignored a {}", e.what())});
      }
      on_unreadable(identity, frames[i], e.what());
      continue;
    }
    if (const auto* hello = std::get_if<control::Hello>(&message)) {
      on_hello(identity, *hello, events);
      continue;
    }
    const auto found = by_identity_.find(identity);
    if (found == by_identity_.end()) {
      refuse(identity, true, "unknown here");
      return;
    }
    on_message(found->second, message, events);
  }
}

// What a lease has said that is no message will not be said in any other way:
// the lease ends, and neither its node nor the study.
void AgentRegistry::on_unreadable(const std::string& identity,
                                  const std::string& frame,
                                  const std::string& why) {
  const auto found = by_identity_.find(identity);
  if (found == by_identity_.end()) return refuse(identity, false, why);
  const RegisteredAgent& agent = agents_[found->second];
  const auto lease = lease_in(frame);
  if (!lease || lease->slot >= agent.slot_count) return;
  const size_t slot = agent.first_slot + static_cast<size_t>(lease->slot);
  if (!holds(slots_[slot], lease->trial, lease->attempt)) return;
  kill(slot, Reason::bad_output, fmt::format("sent a {}", why));
}

void AgentRegistry::on_message(size_t index, const control::Message& message,
                               std::vector<RegistryEvent>& events) {
  RegisteredAgent& agent = agents_[index];
  agent.heard = turns_.now();
  if (const auto* bye = std::get_if<control::Bye>(&message)) {
    const std::string why =
        fmt::format("node {} has left: {}", agent.node, bye->why);
    if (!stopping_) events.push_back(Notice{why});
    lose_agent(index, why, true, events);
    return;
  }
  const int number = slot_of(message);
  if (number < 0 || number >= agent.slot_count) return;
  const size_t slot = agent.first_slot + static_cast<size_t>(number);
  slots_[slot].heard = agent.heard;
  if (const auto* up = std::get_if<control::SlotUp>(&message)) {
    on_slot_up(slot, *up, events);
  } else if (const auto* down = std::get_if<control::SlotDown>(&message)) {
    on_slot_down(slot, *down, events);
  } else if (const auto* progress = std::get_if<control::Progress>(&message)) {
    note_progress(slots_[slot], *progress);
  } else if (const auto* report = std::get_if<control::Report>(&message)) {
    on_report(slot, *report, events);
  } else if (const auto* ended = std::get_if<control::Ended>(&message)) {
    on_ended(slot, *ended, events);
  }
}

void AgentRegistry::note_progress(RegisteredSlot& slot,
                                  const control::Progress& progress) {
  const MonoTime now = slot.heard;
  slot.progress = progress;
  if (progress.phase != kTrainingPhase ||
      !holds(slot, progress.trial, progress.attempt)) {
    slot.step_began.reset();
  } else if (!slot.step_began) {
    slot.step_began = now;
  }
  if (progress.phase == kNoSpacePhase) slot.last_report = now;
  // Files that travel take what they take; if nothing moves, the worker says
  // so itself.
  if (progress.phase == "fetching" || progress.phase == "sending") {
    slot.last_report = now;
    slot.deadline = std::max(slot.deadline, now + lease_);
  }
  const double waited = 1000 * to_seconds(now - slot.counted);
  const bool worked =
      progress.activity > slot.activity &&
      double(progress.activity - slot.activity) > kLeastWork * waited;
  if (worked) slot.last_active = now;
  slot.activity = progress.activity;
  slot.counted = now;
}

bool AgentRegistry::holds(const RegisteredSlot& slot, TrialId trial,
                          Attempt attempt) const {
  return (slot.state == SlotState::busy ||
          slot.state == SlotState::releasing) &&
         slot.trial == trial && slot.attempt == attempt;
}

void AgentRegistry::on_report(size_t index, const control::Report& report,
                              std::vector<RegistryEvent>& events) {
  RegisteredSlot& slot = slots_[index];
  if (!holds(slot, report.trial, report.attempt)) {
    // Too late to count; the worker need not say it again.
    acknowledge({slot.number, report.trial, report.attempt, report.report.step},
                index);
    return;
  }
  slot.last_report = slot.last_active = turns_.now();
  slot.step_began = slot.last_report;
  step_limit_.add(report.report.seconds);
  if (report.report.step >= slot.granted || report.report.last) {
    slot.at_target = true;
  }
  events.push_back(StepDone{index, report});
}

void AgentRegistry::on_ended(size_t index, const control::Ended& ended,
                             std::vector<RegistryEvent>& events) {
  RegisteredSlot& slot = slots_[index];
  if (!holds(slot, ended.trial, ended.attempt)) return;
  if (is_parting(index, ended)) {
    partings_.emplace_back(index, ended);
  } else {
    end_lease(index, ended, events);
  }
}

void AgentRegistry::end_lease(size_t index, const control::Ended& ended,
                              std::vector<RegistryEvent>& events) {
  RegisteredSlot& slot = slots_[index];
  // Not taken: its worker is being restarted, and says so when it is up.
  if (ended.outcome == control::Outcome::temporary &&
      ended.reason == Reason::node_lost) {
    slot.up = false;
  }
  slot.state = free_state(slot);
  slot.killing = false;
  events.push_back(LeaseOver{index, ended});
}

// A worker ends by itself where its agent asks it to, or terminates it.
bool AgentRegistry::is_parting(size_t index,
                               const control::Ended& ended) const {
  if (ended.outcome != control::Outcome::failed) return false;
  const bool died = ended.exit_code >= 0 || ended.signal > 0;
  if (died && agents_[slots_[index].agent].leaving) return true;
  return ended.reason == Reason::user ||
         (ended.reason == Reason::crashed && ended.exit_code == 0 &&
          ended.signal == 0);
}

std::optional<control::Ended> AgentRegistry::take_parting(size_t index) {
  const auto found =
      std::find_if(partings_.begin(), partings_.end(),
                   [index](const auto& p) { return p.first == index; });
  if (found == partings_.end()) return std::nullopt;
  control::Ended ended = std::move(found->second);
  partings_.erase(found);
  return ended;
}

// Their slots were not reported down: their agents are leaving.
void AgentRegistry::settle_partings(std::vector<RegistryEvent>& events) {
  for (auto& [index, ended] : std::exchange(partings_, {})) {
    RegisteredSlot& slot = slots_[index];
    if (!holds(slot, ended.trial, ended.attempt)) continue;  // its node is lost
    leaves(slot.agent);
    slot.parted = true;
    ended.outcome = control::Outcome::temporary;
    ended.reason = Reason::node_lost;
    ended.detail = fmt::format("node {} is leaving", agents_[slot.agent].node);
    end_lease(index, ended, events);
  }
}

SlotState AgentRegistry::free_state(const RegisteredSlot& slot) const {
  return slot.up && !agents_[slot.agent].leaving ? SlotState::idle
                                                 : SlotState::down;
}

void AgentRegistry::on_slot_up(size_t index, const control::SlotUp& up,
                               std::vector<RegistryEvent>& events) {
  RegisteredSlot& slot = slots_[index];
  allow_worker(index, up.public_key);
  slot.up = true;
  if (slot.parted) stays(slot.agent, events);
  if (slot.state != SlotState::down || free_state(slot) == SlotState::down) {
    return;
  }
  slot.state = SlotState::idle;
  events.push_back(SlotReady{index});
}

void AgentRegistry::on_slot_down(size_t index, const control::SlotDown& down,
                                 std::vector<RegistryEvent>& events) {
  RegisteredSlot& slot = slots_[index];
  if (const auto ended = take_parting(index)) end_lease(index, *ended, events);
  lose_lease(index, control::Outcome::failed, Reason::killed, down.detail,
             events);
  forbid_worker(index);
  slot.up = slot.parted = false;
  slot.state = down.gone ? SlotState::gone : SlotState::down;
  slot.progress = {};
  if (!down.gone) return;
  events.push_back(
      Notice{fmt::format("slot {} of {} is out of service: {}", slot.number,
                         agents_[slot.agent].node, down.detail)});
}

void AgentRegistry::lose_lease(size_t index, control::Outcome outcome,
                               Reason reason, const std::string& why,
                               std::vector<RegistryEvent>& events) {
  RegisteredSlot& slot = slots_[index];
  if (slot.state != SlotState::busy && slot.state != SlotState::releasing) {
    return;
  }
  control::Ended ended;
  ended.slot = slot.number;
  ended.trial = slot.trial;
  ended.attempt = slot.attempt;
  ended.outcome = outcome;
  ended.reason = reason;
  ended.detail = why;
  slot.state = SlotState::down;
  slot.killing = false;
  events.push_back(LeaseOver{index, ended});
}

void AgentRegistry::check(std::vector<RegistryEvent>& events) {
  turns_.turn();
  const MonoTime now = turns_.now();
  for (size_t i = 0; i < agents_.size(); ++i) {
    if (!agents_[i].present) continue;
    RegisteredAgent& agent = agents_[i];
    if (options_.local && !agent.remote && has_ended(agent.name)) {
      const std::string why = "the agent's process has ended";
      events.push_back(Notice{fmt::format("node {}: {}", agent.node, why)});
      lose_agent(i, why, false, events);
    } else if (now - agent.heard > lease_) {
      const std::string why =
          fmt::format("node {} has been silent for {}", agents_[i].node,
                      format_duration(now - agents_[i].heard));
      events.push_back(Notice{why});
      lose_agent(i, why, false, events);
    } else if (is_revoked(agent)) {
      const std::string why =
          fmt::format("node {} may not take part any more", agent.node);
      events.push_back(Notice{why});
      lose_agent(i, why, false, events);
    } else if (agent.outbox.size() > kMaxUnsent) {
      const std::string why =
          fmt::format("node {} does not read what it is sent", agent.node);
      events.push_back(Notice{why});
      lose_agent(i, why, false, events);
    } else if (now >= next_heartbeat_) {
      send(i, control::Heartbeat{});
    }
  }
  if (now >= next_heartbeat_) next_heartbeat_ = now + heartbeat_;
  for (size_t i = 0; i < slots_.size(); ++i) check_slot(i, now, events);
  report_notices(events);
}

bool AgentRegistry::is_revoked(const RegisteredAgent& agent) const {
  const auto& security = options_.listen.security;
  return security && agent.remote && !security->allowed->contains(agent.key);
}

void AgentRegistry::check_slot(size_t index, MonoTime now,
                               std::vector<RegistryEvent>& events) {
  RegisteredSlot& slot = slots_[index];
  if (slot.state == SlotState::releasing && now > slot.deadline) {
    if (slot.killing) {  // not even the agent could end it
      lose_lease(index, control::Outcome::failed, Reason::lease_lapsed,
                 "its process cannot be ended", events);
    } else {
      kill(index, Reason::lease_lapsed, "did not stop when asked to");
    }
    return;
  }
  if (slot.state != SlotState::busy) return;
  if (now - slot.heard > lease_) {
    kill(index, Reason::lease_lapsed,
         fmt::format("its worker has been silent for {}",
                     format_duration(now - slot.heard)));
    return;
  }
  if (slot.at_target) return;
  const std::string why = step_limit_.reason_to_end(
      slot.trial, now - slot.last_report,
      now - std::max(slot.last_report, slot.last_active));
  if (why.empty()) return;
  step_limit_.ended(slot.trial);
  kill(index, Reason::lease_lapsed, why);
}

void AgentRegistry::assign(size_t index, control::Assign message) {
  RegisteredSlot& slot = slots_[index];
  DTUNE_CHECK(slot.state == SlotState::idle);
  slot.state = SlotState::busy;
  slot.trial = message.trial;
  slot.attempt = message.attempt;
  slot.granted = message.target;
  slot.at_target = false;
  slot.killing = false;
  slot.heard = slot.last_report = slot.last_active = slot.counted =
      turns_.now();
  slot.step_began.reset();
  slot.activity = 0;
  slot.progress = {};
  message.slot = slot.number;
  send(slot.agent, message);
}

void AgentRegistry::extend(size_t index, int target) {
  RegisteredSlot& slot = slots_[index];
  slot.granted = target;
  slot.at_target = false;
  slot.step_began = turns_.now();
  send(slot.agent,
       control::Extend{slot.number, slot.trial, slot.attempt, target});
}

void AgentRegistry::release(size_t index, bool keep, Duration patience) {
  RegisteredSlot& slot = slots_[index];
  if (slot.state != SlotState::busy) return;
  if (keep) {
    send(slot.agent, control::Pause{slot.number, slot.trial, slot.attempt});
  } else {
    send(slot.agent, control::Cut{slot.number, slot.trial, slot.attempt});
  }
  // Messages keep their order, so what is assigned next comes after this.
  slot.state = slot.at_target ? free_state(slot) : SlotState::releasing;
  // A step heeds `stop` between batches, and a batch can take its time.
  slot.deadline =
      turns_.now() +
      (patience > Duration(0) ? patience : std::max(grace_, lease_));
}

void AgentRegistry::kill(size_t index, Reason reason, const std::string& why) {
  RegisteredSlot& slot = slots_[index];
  if (slot.killing) return;
  slot.killing = true;
  slot.state = SlotState::releasing;
  // The agent terminates, waits its grace, kills.
  slot.deadline = turns_.now() + 2 * grace_ + lease_;
  send(slot.agent,
       control::Kill{slot.number, slot.trial, slot.attempt, reason, why});
}

void AgentRegistry::acknowledge(const control::Ack& ack, size_t slot) {
  control::Ack message = ack;
  message.slot = slots_[slot].number;
  send(slots_[slot].agent, message);
}

void AgentRegistry::stop(bool now, bool returns) {
  stopping_ = true;
  for (size_t i = 0; i < agents_.size(); ++i) {
    if (agents_[i].present) send(i, control::Stop{now, returns});
  }
  flush();
}

int AgentRegistry::present_agents() const {
  return static_cast<int>(
      std::count_if(agents_.begin(), agents_.end(),
                    [](const RegisteredAgent& a) { return a.present; }));
}

void AgentRegistry::send(size_t agent, const control::Message& message) {
  if (agents_[agent].present) agents_[agent].outbox.push_back(encode(message));
}

void AgentRegistry::flush() {
  for (RegisteredAgent& agent : agents_) {
    if (agent.outbox.empty() || !agent.present) continue;
    // What is not taken: gone or slow; it is lost when its lease lapses.
    send_batches(agent.outbox, agent.identity, [this](Frames batch) {
      return transport_->send(std::move(batch));
    });
  }
}

}  // namespace dtune
