#include "dtune/cluster/agent_workers.h"

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "dtune/base/error.h"
#include "dtune/cluster/child_process.h"
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
  welcome_frame_ = frame;
  options_.grace = Duration(welcome.grace_ns);
  options_.memory_bytes =
      static_cast<uint64_t>(std::max<int64_t>(welcome.memory_mb, 0)) << 20;
  if (slots_.empty()) start();
  stirred_ = true;
  for (const SlotProcess& s : slots_) {
    if (s.gone()) {
      send_(encode(control::SlotDown{s.slot(), true, "given up before"}));
    }
    if (!s.up()) continue;
    forward(s.slot(), frame);
    send_(encode(control::SlotUp{s.slot(), s.pid(), keys_[s.slot()]}));
  }
}

void AgentWorkers::start() {
  kill_orphans(options_.study_id);
  for (int i = 0; i < options_.slots; ++i) {
    slots_.emplace_back(
        i, options_, [this](const control::Message& m) { send_(encode(m)); });
  }
}

void AgentWorkers::leave_session() {
  control::Welcome none = welcome_;
  none.session = "none";
  for (const SlotProcess& s : slots_) {
    if (s.up()) forward(s.slot(), encode(none));
  }
}

void AgentWorkers::on_assign(const control::Assign& assign,
                             const std::string& frame) {
  SlotProcess* s = slot(assign.slot);
  if (s != nullptr && s->up() && !s->dying()) {
    s->on_assign(assign);
    forward(assign.slot, frame);
    return;
  }
  send_(encode(SlotProcess::not_taken(assign)));
}

// Not the next lease, if the one meant has ended meanwhile.
void AgentWorkers::on_kill(const control::Kill& kill, MonoTime now) {
  SlotProcess* s = slot(kill.slot);
  if (s == nullptr || !s->holds(kill.trial, kill.attempt)) return;
  s->kill(kill.reason, kill.why, now);
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
  for (SlotProcess& s : slots_) {
    s.close();
    if (s.up()) forward(s.slot(), encode(control::Stop{.now = now}));
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
    spdlog::warn("from a worker: {}", e.what());
    return;
  }
  SlotProcess* s = slot(slot_of(message));
  if (s == nullptr || !s->alive()) return;
  if (const auto* up = std::get_if<control::SlotUp>(&message)) {
    if (up->pid != s->pid()) return;  // a late message of a dead worker
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
    const bool was_up = s.up();
    next_tick_ = std::min(next_tick_, s.tick(now));
    if (!was_up || s.up()) continue;
    identities_.erase(s.slot());
    outbox_.erase(s.slot());
  }
}

SlotProcess* AgentWorkers::slot(int number) {
  if (number < 0 || static_cast<size_t>(number) >= slots_.size()) {
    return nullptr;
  }
  return &slots_[static_cast<size_t>(number)];
}

}  // namespace dtune
