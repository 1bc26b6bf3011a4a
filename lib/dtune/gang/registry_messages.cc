// What members say: the other half of registry.cc.
#include <algorithm>
#include <variant>

#include <fmt/format.h>

#include "dtune/gang/registry.h"

namespace dtune::gang {

void GangRegistry::receive(const std::string& peer, Packet packet,
                           const std::string& key) {
  if (const auto* join = std::get_if<Join>(&packet.message)) {
    return on_join(peer, *join, key);
  }
  const auto found = peers_.find(peer);
  OpenGang* gang = found == peers_.end() ? nullptr : find(found->second.gang);
  if (gang == nullptr) return send_to(peer, Again{});
  const int member = found->second.member;
  Session* session = gang->place(member).session.get();
  if (session == nullptr || session->peer != peer) {
    return send_to(peer, Again{});
  }
  gang->controller.heard(member, now());
  if (!session->link.receive(packet)) return;
  if (std::holds_alternative<Begin>(packet.message)) {
    session->begun = packet.begun;
  }
  attempt(*gang, [&] {
    std::visit([&](auto& m) { on(*gang, member, m); }, packet.message);
  });
}

void GangRegistry::on_join(const std::string& peer, const Join& join,
                           const std::string& key) {
  OpenGang* gang = find(join.gang);
  if (gang == nullptr) {
    const auto closed = std::find_if(
        closed_.begin(), closed_.end(),
        [&](const auto& entry) { return entry.first == join.gang; });
    return send_to(peer,
                   Closed{closed == closed_.end()
                              ? "no gang of this name: " + label(join.gang)
                              : closed->second});
  }
  if (!gang->has(join.member)) {
    return send_to(peer, Closed{fmt::format("gang {} has no member {}",
                                            label(join.gang), join.member)});
  }
  if (gang->place(join.member).key.value_or(key) != key) {
    return send_to(
        peer, Closed{fmt::format("the place of member {} of gang {} was given "
                                 "to another key",
                                 join.member, label(join.gang))});
  }
  const std::vector<std::string>& known = gang->place(join.member).processes;
  const auto old = std::find(known.begin(), known.end(), join.process);
  if (old != known.end() && old + 1 != known.end()) {
    return send_to(peer, Evicted{"a newer process has taken this place"});
  }
  const bool fresh = old == known.end();
  attempt(*gang, [&] {
    if (fresh) replace(*gang, join.member, join.process);
    welcome(*gang, join, peer);
  });
}

// A process that has not been here yet takes the place.
void GangRegistry::replace(OpenGang& gang, int member,
                           const std::string& process) {
  Place& place = gang.place(member);
  place.processes.push_back(process);
  if (!place.session) return;
  send(*place.session, Evicted{"a newer process has taken this place"});
  give_up(gang, member, "a new process has taken its place");
}

void GangRegistry::welcome(OpenGang& gang, const Join& join,
                           const std::string& peer) {
  std::unique_ptr<Session>& session = gang.place(join.member).session;
  const bool fresh =
      !session || (join.session != 0 && join.session != session->id);
  if (fresh) {
    if (session) give_up(gang, join.member, "it has started anew");
    session = std::make_unique<Session>();
    session->id = ++sessions_;
  } else {
    peers_.erase(session->peer);
  }
  session->peer = peer;
  peers_[peer] = {join.gang, join.member};
  const GangOptions& options = gang.controller.options();
  Welcome answer;
  answer.session = session->id;
  answer.fresh = fresh;
  answer.heartbeat_ns = options.heartbeat.count();
  answer.lease_ns = options.lease.count();
  answer.trace = trace_.is_open();
  enqueue(peer, session->link.send_unnumbered(answer));
  for (std::string& bytes : session->link.all_pending(now())) {
    enqueue(peer, std::move(bytes));
  }
  gang.controller.joined(join.member, now());
}

void GangRegistry::on(OpenGang& gang, int member, const Heartbeat& beat) {
  Session& session = *gang.place(member).session;
  enqueue(session.peer,
          session.link.send_unnumbered(
              Pong{beat.clock_ns, machine_.now().time_since_epoch().count()}));
  const Duration age = std::clamp(Duration(beat.phase_ns), Duration{0},
                                  Duration(std::chrono::hours(1000)));
  gang.controller.phase(member, beat.phase.substr(0, 64), age, now());
  for (const auto& [name, value] : beat.gauges) {
    gang.controller.gauge(member, name.substr(0, 64), value);
    trace_.gauge(gang.trace, member, name, value);
  }
}

void GangRegistry::on(OpenGang& gang, int member, const Begin& begin) {
  gang.controller.begin(member, begin, now());
}

void GangRegistry::on(OpenGang& gang, int member, const Ready& ready) {
  gang.controller.ready(member, ready, now());
}

void GangRegistry::on(OpenGang& gang, int member, const Failed& failed) {
  gang.controller.failed(member, failed, now());
}

void GangRegistry::on(OpenGang& gang, int member, const Left& /*left*/) {
  gang.controller.left_step(member, now());
}

void GangRegistry::on(OpenGang& gang, int member, const Leave& /*leave*/) {
  gang.controller.left(member, "left in the middle of a step", now());
  drop_session(gang, member);
}

void GangRegistry::on(OpenGang& gang, int /*member*/, const StoreSet& set) {
  for (const int waiter : gang.store.set(set.key, set.value)) {
    answer(gang, waiter, set.key);
  }
}

void GangRegistry::on(OpenGang& gang, int member, const StoreGet& get) {
  if (gang.store.get(get.key, member)) answer(gang, member, get.key);
}

void GangRegistry::on(OpenGang& gang, int member, const TraceChunk& chunk) {
  trace_.add(gang.trace, member, chunk);
}

void GangRegistry::answer(OpenGang& gang, int member, const std::string& key) {
  Session* session = gang.place(member).session.get();
  const std::string* value = gang.store.find(key);
  if (session != nullptr && value != nullptr) {
    send(*session, StoreValue{key, *value});
  }
}

}  // namespace dtune::gang
