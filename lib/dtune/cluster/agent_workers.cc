#include "dtune/cluster/agent_workers.h"

#include <algorithm>
#include <utility>

#include "dtune/base/error.h"
#include "dtune/cluster/child_process.h"
#include "dtune/cluster/log.h"
#include "dtune/comm/batches.h"

namespace dtune {

AgentWorkers::AgentWorkers(const SocketContext& context, SlotOptions options,
                           Send send)
    : options_(std::move(options)),
      send_(std::move(send)),
      socket_(context, Socket::Kind::router) {
  socket_.bind(options_.endpoint);
}

void AgentWorkers::on_welcome(const control::Welcome& welcome,
                              const std::string& frame, MonoTime now) {
  if (options_.study_id != welcome.study_id) {
    options_.study_id = welcome.study_id;
    for (SlotProcess& s : slots_) {  // those of another study's
      s.kill(Reason::user, "its study is over", now);
    }
  }
  welcome_ = welcome;
  greeting_ = frame;
  options_.grace = Duration(welcome.grace_ns);
  options_.memory_bytes =
      static_cast<uint64_t>(std::max<int64_t>(welcome.memory_mb, 0)) << 20;
  if (slots_.empty()) start();
  stirred_ = true;
  for (const SlotProcess& s : slots_) {
    for (const int number : s.gone() ? s.slots() : std::vector<int>()) {
      send_(encode(control::SlotDown{number, true, "given up before"}));
    }
    for (const int number : s.slots_up()) {
      forward(number, frame);
      send_(encode(control::SlotUp{number, s.pid(), keys_[number]}));
    }
  }
}

bool AgentWorkers::suit(const control::Welcome& welcome) const {
  return slots_.empty() || !fuses_ || welcome.may_fuse == welcome_.may_fuse;
}

void AgentWorkers::start() {
  kill_orphans(options_.study_id);
  fuses_ = options_.seats > 1;
  if (fuses_ && !welcome_.may_fuse) {
    log_warning(
        "each slot has one trial in place of {}: those of this study "
        "cannot be fused (it runs a command, is deterministic, takes "
        "several ranks for a trial or tunes the precision)",
        options_.seats);
    options_.slots /= options_.seats;
    options_.seats = 1;
  }
  for (int i = 0; i < options_.slots / options_.seats; ++i) {
    slots_.emplace_back(
        i, options_, [this](const control::Message& m) { send_(encode(m)); });
  }
}

void AgentWorkers::leave_session() {
  control::Welcome none = welcome_;
  none.session = "none";
  for (const SlotProcess& s : slots_) {
    for (const int number : s.slots_up()) forward(number, encode(none));
  }
}

void AgentWorkers::on_assign(const control::Assign& assign,
                             const std::string& frame) {
  SlotProcess* s = slot(assign.slot);
  if (s != nullptr && s->up(assign.slot) && !s->dying()) {
    s->on_assign(assign);
    forward(assign.slot, frame);
    return;
  }
  send_(encode(SlotProcess::not_taken(assign)));
}

// Not the next lease, if the one meant has ended meanwhile.
void AgentWorkers::on_kill(const control::Kill& kill, MonoTime now) {
  SlotProcess* s = slot(kill.slot);
  if (s == nullptr || !s->holds(kill.slot, kill.trial, kill.attempt)) {
    return;
  }
  s->kill(kill.reason, kill.why, now, kill.slot);
  stirred_ = true;
}

void AgentWorkers::forward(int slot, const std::string& frame) {
  outbox_[slot].push_back(frame);
}

bool AgentWorkers::hold_trial() const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const SlotProcess& s) { return s.holds_trial(); });
}

bool AgentWorkers::alive() const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const SlotProcess& s) { return s.alive(); });
}

void AgentWorkers::close(bool now) {
  greeting_ = encode(control::Stop{.now = now});
  for (SlotProcess& s : slots_) {
    s.close();
    for (const int number : s.slots_up()) forward(number, greeting_);
  }
}

void AgentWorkers::shut_down(bool hard, MonoTime now) {
  for (SlotProcess& s : slots_) s.shut_down(hard, now);
}

void AgentWorkers::add_to(PollSet& polls) {
  first_poll_ = last_poll_ = polls.add(socket_);
  for (const SlotProcess& s : slots_) {
    if (s.output() >= 0) last_poll_ = polls.add(s.output());
    if (s.exit_descriptor() >= 0) last_poll_ = polls.add(s.exit_descriptor());
  }
}

void AgentWorkers::look(const PollSet& polls) {
  for (size_t i = first_poll_ + 1; i <= last_poll_; ++i) {
    stirred_ = stirred_ || polls.ready(i);
  }
}

void AgentWorkers::receive() {
  while (auto frames = socket_.receive()) {
    for (size_t i = 1; i < frames->size(); ++i) {
      on_message(frames->front(), (*frames)[i]);
    }
  }
}

void AgentWorkers::on_message(const std::string& identity,
                              const std::string& frame) {
  control::Message message;
  try {
    message = decode(frame);
  } catch (const Error& e) {
    log_warning("from a worker: {}", e.what());
    return;
  }
  const int number = slot_of(message);
  SlotProcess* s = slot(number);
  if (s == nullptr || !s->alive()) return;
  if (const auto* up = std::get_if<control::SlotUp>(&message)) {
    if (up->pid != s->pid()) return;  // a late message of a dead worker
    identities_[number] = identity;
    keys_[number] = up->public_key;
    s->on_slot_up(number);
    forward(number, greeting_);
  } else if (identities_[number] != identity) {
    return;
  }
  if (const auto* ended = std::get_if<control::Ended>(&message)) {
    s->on_ended(*ended);
  }
  send_(frame);
}

void AgentWorkers::flush() {
  for (auto& [number, frames] : outbox_) {
    const auto identity = identities_.find(number);
    if (frames.empty() || identity == identities_.end()) continue;
    send_batches(frames, identity->second,
                 [this](const Frames& batch) { return socket_.send(batch); });
    // A worker that is gone needs no messages: its slot's end is reported
    // apart.
    frames.clear();
  }
}

void AgentWorkers::tick(MonoTime now) {
  next_tick_ = now + std::chrono::seconds(1);
  stirred_ = false;
  for (SlotProcess& s : slots_) {
    const std::vector<int> were_up = s.slots_up();
    next_tick_ = std::min(next_tick_, s.tick(now));
    for (const int number : were_up) {
      if (s.up(number)) continue;
      identities_.erase(number);
      outbox_.erase(number);
    }
  }
}

SlotProcess* AgentWorkers::slot(int number) {
  if (number < 0) return nullptr;
  const auto process = static_cast<size_t>(number / options_.seats);
  return process < slots_.size() ? &slots_[process] : nullptr;
}

}  // namespace dtune
