#include "dtune/gang/registry.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/turn_clock.h"
#include "dtune/gang/controller.h"
#include "dtune/gang/reliable_link.h"
#include "dtune/gang/store.h"
#include "dtune/gang/trace_file.h"

namespace dtune::gang {
namespace {

constexpr size_t kMostPending = 10'000;  // messages that a member has not taken
constexpr size_t kClosedKept = 1000;

// A member's process, as long as it is not given up.
struct Session {
  int64_t id = 0;
  std::string peer;  // of the listener; changes with every connection
  ReliableLink link;
  int64_t begun = 0;
};

struct Place {
  std::vector<std::string> processes;  // that ever came, the newest last
  std::unique_ptr<Session> session;
};

struct OpenGang {
  OpenGang(const GangOptions& options, int first_pid, MonoTime now)
      : controller(options, now),
        places(static_cast<size_t>(controller.members())),
        pid(first_pid) {}

  GangController controller;
  std::vector<Place> places;
  GangStore store;
  int pid;  // of the gang in the trace; its members follow
};

// What a peer that is connected is.
struct Peer {
  std::string gang;
  int member = 0;
};

}  // namespace

struct GangRegistry::Impl {
  explicit Impl(const Clock& clock)
      : machine(clock), turns(GangController::kSilent / 2, clock) {}

  // What members are measured by. The trace has the machine's own.
  MonoTime now() const { return turns.now(); }

  void receive(const std::string& peer, Packet packet) {
    if (const auto* join = std::get_if<Join>(&packet.message)) {
      return on_join(peer, *join);
    }
    const auto found = peers.find(peer);
    OpenGang* gang = found == peers.end() ? nullptr : find(found->second.gang);
    if (gang == nullptr) return send_to(peer, Again{});
    const int member = found->second.member;
    Session* session = place(*gang, member).session.get();
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

  // Where a gang contradicts itself, which is our mistake or that of a member,
  // its trial starts again from its checkpoint; no other gang is affected.
  template <class Act>
  void attempt(OpenGang& gang, const Act& act) {
    try {
      act();
    } catch (const Error& error) {
      gang.controller.close(error.what());
    }
    pump(gang);
  }

  void on_join(const std::string& peer, const Join& join) {
    OpenGang* gang = find(join.gang);
    if (gang == nullptr) {
      const auto closed = std::find_if(
          closed_gangs.begin(), closed_gangs.end(),
          [&](const auto& entry) { return entry.first == join.gang; });
      return send_to(peer, Closed{closed == closed_gangs.end()
                                      ? "no gang of this name: " + join.gang
                                      : closed->second});
    }
    if (join.member >= gang->controller.members()) {
      return send_to(peer, Closed{fmt::format("gang {} has no member {}",
                                              join.gang, join.member)});
    }
    Place& taken = place(*gang, join.member);
    std::vector<std::string>& known = taken.processes;
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
  void replace(OpenGang& gang, int member, const std::string& process) {
    Place& taken = place(gang, member);
    taken.processes.push_back(process);
    if (!taken.session) return;
    send(*taken.session, Evicted{"a newer process has taken this place"});
    give_up(gang, member, "a new process has taken its place");
  }

  // Before a new one is here. Harmless outside of a step: one that cannot use
  // its checkpoint comes again at once, and may be here before the other's
  // last word.
  void give_up(OpenGang& gang, int member, const std::string& why) {
    gang.controller.left(member, why, now());
    pump(gang);
    drop_session(gang, member);
  }

  void welcome(OpenGang& gang, const Join& join, const std::string& peer) {
    std::unique_ptr<Session>& session = place(gang, join.member).session;
    const bool fresh =
        !session || (join.session != 0 && join.session != session->id);
    if (fresh) {
      if (session) give_up(gang, join.member, "it has started anew");
      session = std::make_unique<Session>();
      session->id = ++sessions;
    } else {
      peers.erase(session->peer);
    }
    session->peer = peer;
    peers[peer] = {join.gang, join.member};
    const GangOptions& options = gang.controller.options();
    Welcome answer;
    answer.session = session->id;
    answer.fresh = fresh;
    answer.heartbeat_ns = options.heartbeat.count();
    answer.lease_ns = options.lease.count();
    answer.trace = trace != nullptr;
    enqueue(peer, session->link.send_unnumbered(answer));
    for (std::string& bytes : session->link.all_pending(now())) {
      enqueue(peer, std::move(bytes));
    }
    gang.controller.joined(join.member, now());
  }

  void on(OpenGang& gang, int member, const Heartbeat& beat) {
    Session& session = *place(gang, member).session;
    enqueue(session.peer,
            session.link.send_unnumbered(
                Pong{beat.clock_ns, machine.now().time_since_epoch().count()}));
    const Duration age = std::clamp(Duration(beat.phase_ns), Duration{0},
                                    Duration(std::chrono::hours(1000)));
    gang.controller.phase(member, beat.phase.substr(0, 64), age, now());
    for (const auto& [name, value] : beat.gauges) {
      gang.controller.gauge(member, name.substr(0, 64), value);
      if (trace) {
        trace->counters(pid(gang, member), name, {{"value", value}},
                        machine.now());
      }
    }
  }
  void on(OpenGang& gang, int member, const Begin& m) {
    gang.controller.begin(member, m, now());
  }
  void on(OpenGang& gang, int member, const Ready& m) {
    gang.controller.ready(member, m, now());
  }
  void on(OpenGang& gang, int member, const Failed& m) {
    gang.controller.failed(member, m, now());
  }
  void on(OpenGang& gang, int member, const Left&) {
    gang.controller.left_step(member, now());
  }
  void on(OpenGang& gang, int member, const Leave&) {
    gang.controller.left(member, "left in the middle of a step", now());
    drop_session(gang, member);
  }
  void on(OpenGang& gang, int, const StoreSet& m) {
    for (const int waiter : gang.store.set(m.key, m.value)) {
      answer(gang, waiter, m.key);
    }
  }
  void on(OpenGang& gang, int member, const StoreGet& m) {
    if (gang.store.get(m.key, member)) answer(gang, member, m.key);
  }
  void on(OpenGang& gang, int member, const TraceChunk& chunk) {
    if (!trace) return;
    for (const TraceItem& item : chunk.events) {
      trace->add(pid(gang, member), item, chunk.offset_ns);
    }
  }
  template <class T>
  void on(OpenGang&, int, const T&) {}  // what only a member hears

  void answer(OpenGang& gang, int member, const std::string& key) {
    Session* session = place(gang, member).session.get();
    const std::string* value = gang.store.find(key);
    if (session != nullptr && value != nullptr) {
      send(*session, StoreValue{key, *value});
    }
  }

  // Passes on what the controller has decided.
  void pump(OpenGang& gang) {
    for (GangController::Outgoing& out : gang.controller.take_orders()) {
      Session* session = place(gang, out.member).session.get();
      if (session == nullptr) continue;
      std::visit([&](auto& m) { send(*session, std::move(m)); }, out.order);
    }
    for (GangEvent& event : gang.controller.take_events()) {
      if (event.kind == GangEvent::Kind::lost) {
        drop_session(gang, event.member);
      }
      events.push_back(std::move(event));
    }
    for (const GangMark& mark : gang.controller.take_marks()) {
      if (!trace) continue;
      if (mark.counters.empty()) {
        trace->instant(gang.pid, mark.name, machine.now());
      } else {
        trace->counters(gang.pid, mark.name, mark.counters, machine.now());
      }
    }
  }

  void repeat(OpenGang& gang) {
    for (size_t i = 0; i < gang.places.size(); ++i) {
      Session* session = gang.places[i].session.get();
      if (session == nullptr) continue;
      if (session->link.pending() > kMostPending) {
        gang.controller.lost(static_cast<int>(i), "it takes nothing any more",
                             now());
        continue;
      }
      for (std::string& bytes : session->link.repeats(now())) {
        enqueue(session->peer, std::move(bytes));
      }
    }
  }

  template <class M>
  void send(Session& session, M message) {
    enqueue(session.peer,
            session.link.send(std::move(message), session.begun, now()));
  }

  void enqueue(const std::string& peer, std::string bytes) {
    outbox.push_back({peer, std::move(bytes)});
  }

  void send_to(const std::string& peer, Message message) {
    enqueue(peer, ReliableLink().send_unnumbered(std::move(message)));
  }

  void drop_session(OpenGang& gang, int member) {
    std::unique_ptr<Session>& session = place(gang, member).session;
    if (!session) return;
    peers.erase(session->peer);
    session.reset();
    gang.store.forget(member);
  }

  OpenGang* find(const std::string& name) {
    const auto found = gangs.find(name);
    return found == gangs.end() ? nullptr : found->second.get();
  }
  static Place& place(OpenGang& gang, int member) {
    return gang.places.at(static_cast<size_t>(member));
  }

  static int pid(const OpenGang& gang, int member) {
    return gang.pid + 1 + member;
  }

  void name_in_trace(const OpenGang& gang) {
    const GangOptions& options = gang.controller.options();
    trace->name_process(gang.pid, "gang " + options.gang, options.gang);
    for (int m = 0; m < gang.controller.members(); ++m) {
      const std::string& node = options.nodes[static_cast<size_t>(m)];
      trace->name_process(pid(gang, m),
                          node.empty() ? fmt::format("rank {}", m)
                                       : fmt::format("rank {} ({})", m, node),
                          options.gang);
    }
  }

  // Sends members whether to record.
  void record(bool on) {
    for (auto& [name, gang] : gangs) {
      for (Place& place : gang->places) {
        if (place.session) send(*place.session, TraceOn{on});
      }
    }
  }

  void flush_trace() {
    if (!trace) return;
    try {
      trace->flush();
    } catch (const Error& error) {
      trace = nullptr;
      record(false);
      events.push_back({gangs.empty() ? "" : gangs.begin()->first,
                        GangEvent::Kind::untraced, -1, error.what()});
    }
  }

  const Clock& machine;
  TurnClock turns;
  std::map<std::string, std::unique_ptr<OpenGang>> gangs;
  std::deque<std::pair<std::string, std::string>> closed_gangs;  // name, why
  std::map<std::string, Peer> peers;
  std::vector<GangRegistry::Outgoing> outbox;
  std::vector<GangEvent> events;
  std::unique_ptr<TraceFile> trace;
  int64_t sessions = 0;
  int next_pid = 0;
};

GangRegistry::GangRegistry(const Clock& clock)
    : impl_(std::make_unique<Impl>(clock)) {}
GangRegistry::~GangRegistry() = default;

void GangRegistry::receive(const std::string& peer, std::string_view bytes) {
  Packet packet;
  try {
    packet = decode(bytes);
  } catch (const Error&) {
    // Not a message of this protocol: the sender is no member, or a broken one
    // that falls silent.
    return;
  }
  impl_->receive(peer, std::move(packet));
}

void GangRegistry::tick() {
  impl_->turns.turn();
  for (auto& [name, gang] : impl_->gangs) {
    impl_->attempt(*gang, [&] {
      gang->controller.tick(impl_->now());
      impl_->repeat(*gang);
    });
  }
  impl_->flush_trace();
}

bool GangRegistry::idle() const { return impl_->gangs.empty(); }

std::vector<GangRegistry::Outgoing> GangRegistry::take_outbox() {
  return std::exchange(impl_->outbox, {});
}

bool GangRegistry::has_events() const { return !impl_->events.empty(); }

std::vector<GangEvent> GangRegistry::take_events() {
  return std::exchange(impl_->events, {});
}

void GangRegistry::open(const GangOptions& options) {
  auto gang =
      std::make_unique<OpenGang>(options, impl_->next_pid, impl_->now());
  impl_->next_pid += 1 + gang->controller.members();
  if (impl_->trace) impl_->name_in_trace(*gang);
  std::erase_if(impl_->closed_gangs,
                [&](const auto& e) { return e.first == options.gang; });
  impl_->gangs[options.gang] = std::move(gang);
}

void GangRegistry::close(const std::string& gang, const std::string& why) {
  OpenGang* open = impl_->find(gang);
  if (open == nullptr) return;
  open->controller.close(why);
  impl_->pump(*open);
  std::erase_if(impl_->peers,
                [&](const auto& e) { return e.second.gang == gang; });
  impl_->closed_gangs.emplace_back(gang, why);
  if (impl_->closed_gangs.size() > kClosedKept) {
    impl_->closed_gangs.pop_front();
  }
  impl_->gangs.erase(gang);
}

void GangRegistry::close_all(const std::string& why) {
  while (!impl_->gangs.empty()) {
    const std::string name = impl_->gangs.begin()->first;
    close(name, why);
  }
}

void GangRegistry::member_lost(const std::string& gang, int member,
                               const std::string& why) {
  OpenGang* open = impl_->find(gang);
  if (open == nullptr || member < 0 || member >= open->controller.members())
    return;
  impl_->attempt(*open,
                 [&] { open->controller.lost(member, why, impl_->now()); });
}

GangStatus GangRegistry::status(const std::string& gang) const {
  const OpenGang* open = impl_->find(gang);
  return open == nullptr ? GangStatus() : open->controller.status(impl_->now());
}

void GangRegistry::trace_to(const std::filesystem::path& file) {
  impl_->trace = std::make_unique<TraceFile>(file, impl_->machine.now());
  for (auto& [name, gang] : impl_->gangs) impl_->name_in_trace(*gang);
  impl_->record(true);
}

}  // namespace dtune::gang
