#include "dtune/gang/registry.h"

namespace dtune::gang {
namespace {

constexpr size_t kMostPending = 10'000;  // messages that a member has not taken
constexpr size_t kClosedKept = 1000;

}  // namespace

GangRegistry::GangRegistry(const Clock& clock)
    : machine_(clock),
      turns_(GangController::kSilent / 2, clock),
      trace_(clock) {}

void GangRegistry::receive(const std::string& peer, std::string_view bytes,
                           const std::string& key) {
  Packet packet;
  try {
    packet = decode(bytes);
  } catch (const Error&) {
    // No message of this protocol: its sender is no member, or a broken one
    // that falls silent.
    return;
  }
  receive(peer, std::move(packet), key);
}

void GangRegistry::tick() {
  turns_.turn();
  for (auto& entry : gangs_) {
    OpenGang& gang = *entry.second;
    attempt(gang, [&] {
      gang.controller.tick(now());
      repeat(gang);
    });
  }
  flush_trace();
}

void GangRegistry::open(const GangOptions& options) {
  auto gang = std::make_unique<OpenGang>(options, next_in_trace_, now());
  next_in_trace_ += 1 + gang->controller.members();
  trace_.name(gang->trace, gang->controller.options());
  std::erase_if(closed_,
                [&](const auto& e) { return e.first == options.gang; });
  gangs_[options.gang] = std::move(gang);
}

void GangRegistry::close(const std::string& gang, const std::string& why) {
  OpenGang* open = find(gang);
  if (open == nullptr) return;
  open->controller.close(why);
  pump(*open);
  std::erase_if(peers_, [&](const auto& e) { return e.second.gang == gang; });
  closed_.emplace_back(gang, why);
  if (closed_.size() > kClosedKept) closed_.pop_front();
  gangs_.erase(gang);
}

void GangRegistry::close_all(const std::string& why) {
  while (!gangs_.empty()) {
    const std::string name = gangs_.begin()->first;
    close(name, why);
  }
}

void GangRegistry::admit(const std::string& gang, int member,
                         const std::string& key) {
  OpenGang* open = find(gang);
  if (open != nullptr && open->has(member)) open->place(member).key = key;
}

bool GangRegistry::can_lose(const std::string& gang, int member) const {
  const OpenGang* open = find(gang);
  return open != nullptr && open->has(member) &&
         open->controller.can_lose(member);
}

void GangRegistry::member_lost(const std::string& gang, int member,
                               const std::string& why) {
  OpenGang* open = find(gang);
  if (open == nullptr || !open->has(member)) return;
  attempt(*open, [&] { open->controller.lost(member, why, now()); });
}

GangStatus GangRegistry::status(const std::string& gang) const {
  const OpenGang* open = find(gang);
  return open == nullptr ? GangStatus() : open->controller.status();
}

void GangRegistry::trace_to(const std::filesystem::path& file) {
  trace_.open(file);
  for (auto& [name, gang] : gangs_) {
    trace_.name(gang->trace, gang->controller.options());
  }
  record(true);
}

GangRegistry::OpenGang* GangRegistry::find(const std::string& name) const {
  const auto found = gangs_.find(name);
  return found == gangs_.end() ? nullptr : found->second.get();
}

// Passes on what the controller has decided.
void GangRegistry::pump(OpenGang& gang) {
  for (GangController::Outgoing& out : gang.controller.take_orders()) {
    Session* session = gang.place(out.member).session.get();
    if (session == nullptr) continue;
    std::visit([&](auto& m) { send(*session, std::move(m)); }, out.order);
  }
  for (GangEvent& event : gang.controller.take_events()) {
    if (event.kind == GangEvent::Kind::lost) drop_session(gang, event.member);
    events_.push_back(std::move(event));
  }
  for (const GangMark& mark : gang.controller.take_marks()) {
    trace_.mark(gang.trace, mark);
  }
}

void GangRegistry::repeat(OpenGang& gang) {
  for (size_t i = 0; i < gang.places.size(); ++i) {
    Session* session = gang.places[i].session.get();
    if (session == nullptr) continue;
    if (session->link.pending() > kMostPending) {
      gang.controller.lost(static_cast<int>(i),
                           "it does not acknowledge messages", now());
      continue;
    }
    for (std::string& bytes : session->link.repeats(now())) {
      enqueue(session->peer, std::move(bytes));
    }
  }
}

// Before a new one is here. Harmless outside of a step: one that cannot use
// its checkpoint comes again at once, and may be here before the other's
// last word.
void GangRegistry::give_up(OpenGang& gang, int member, const std::string& why) {
  gang.controller.left(member, why, now());
  pump(gang);
  drop_session(gang, member);
}

void GangRegistry::drop_session(OpenGang& gang, int member) {
  std::unique_ptr<Session>& session = gang.place(member).session;
  if (!session) return;
  peers_.erase(session->peer);
  session.reset();
  gang.store.forget(member);
}

void GangRegistry::send_to(const std::string& peer, Message message) {
  enqueue(peer, ReliableLink().send_unnumbered(std::move(message)));
}

// Sends members whether to record.
void GangRegistry::record(bool on) {
  for (auto& [name, gang] : gangs_) {
    for (Place& place : gang->places) {
      if (place.session) send(*place.session, TraceOn{on});
    }
  }
}

void GangRegistry::flush_trace() {
  const std::optional<std::string> failure = trace_.flush();
  if (!failure) return;
  record(false);
  events_.push_back({gangs_.empty() ? "" : gangs_.begin()->first,
                     GangEvent::Kind::untraced, -1, *failure});
}

}  // namespace dtune::gang
