#include "dtune/gang/desk.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/turn_clock.h"
#include "dtune/gang/master.h"
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

struct Seat {
  std::vector<std::string> processes;  // that ever came, the newest last
  std::unique_ptr<Session> session;
};

struct OpenGang {
  OpenGang(const GangOptions& options, int first_pid, MonoTime now)
      : master(options, now),
        seats(static_cast<size_t>(master.members())),
        pid(first_pid) {}

  GangMaster master;
  std::vector<Seat> seats;
  GangStore store;
  int pid;  // of the gang in the trace; its members follow
};

// What a peer that is connected is.
struct Peer {
  std::string gang;
  int member = 0;
};

}  // namespace

struct GangDesk::Impl {
  explicit Impl(const Clock& clock)
      : machine(clock), turns(GangMaster::kSilent / 2, clock) {}

  // What members are measured by. The trace has the machine's own.
  MonoTime now() const { return turns.now(); }

  void receive(const std::string& peer, Packet packet) {
    if (const auto* join = std::get_if<Join>(&packet.message)) {
      return on_join(peer, *join);
    }
    const auto found = peers.find(peer);
    OpenGang* gang = found == peers.end() ? nullptr : find(found->second.gang);
    if (gang == nullptr) return tell(peer, Again{});
    const int member = found->second.member;
    Session* session = seat(*gang, member).session.get();
    if (session == nullptr || session->peer != peer) {
      return tell(peer, Again{});
    }
    gang->master.heard(member, now());
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
      gang.master.close(error.what());
    }
    pump(gang);
  }

  void on_join(const std::string& peer, const Join& join) {
    OpenGang* gang = find(join.gang);
    if (gang == nullptr) {
      const auto closed = std::find_if(
          closed_gangs.begin(), closed_gangs.end(),
          [&](const auto& entry) { return entry.first == join.gang; });
      return tell(peer, Closed{closed == closed_gangs.end()
                                   ? "no gang of this name: " + join.gang
                                   : closed->second});
    }
    if (join.member >= gang->master.members()) {
      return tell(peer, Closed{fmt::format("gang {} has no member {}",
                                           join.gang, join.member)});
    }
    Seat& place = seat(*gang, join.member);
    std::vector<std::string>& known = place.processes;
    const auto old = std::find(known.begin(), known.end(), join.process);
    if (old != known.end() && old + 1 != known.end()) {
      return tell(peer, Evicted{"a newer process has taken this place"});
    }
    const bool fresh = old == known.end();
    attempt(*gang, [&] {
      if (fresh) replace(*gang, join.member, join.process);
      welcome(*gang, join, peer);
    });
  }

  // A process that has not been here yet takes the place.
  void replace(OpenGang& gang, int member, const std::string& process) {
    Seat& place = seat(gang, member);
    place.processes.push_back(process);
    if (!place.session) return;
    send(*place.session, Evicted{"a newer process has taken this place"});
    give_up(gang, member, "a new process has taken its place");
  }

  // Before a new one is here. Harmless outside of a step: one that cannot use
  // its checkpoint comes again at once, and may be here before the other's
  // last word.
  void give_up(OpenGang& gang, int member, const std::string& why) {
    gang.master.left(member, why, now());
    pump(gang);
    drop_session(gang, member);
  }

  void welcome(OpenGang& gang, const Join& join, const std::string& peer) {
    std::unique_ptr<Session>& session = seat(gang, join.member).session;
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
    const GangOptions& options = gang.master.options();
    Welcome answer;
    answer.session = session->id;
    answer.fresh = fresh;
    answer.heartbeat_ns = options.heartbeat.count();
    answer.lease_ns = options.lease.count();
    answer.trace = trace != nullptr;
    post(peer, session->link.send_unnumbered(answer));
    for (std::string& bytes : session->link.all_pending(now())) {
      post(peer, std::move(bytes));
    }
    gang.master.joined(join.member, now());
  }

  void on(OpenGang& gang, int member, const Heartbeat& beat) {
    Session& session = *seat(gang, member).session;
    post(session.peer,
         session.link.send_unnumbered(
             Pong{beat.clock_ns, machine.now().time_since_epoch().count()}));
    const Duration age = std::clamp(Duration(beat.phase_ns), Duration{0},
                                    Duration(std::chrono::hours(1000)));
    gang.master.phase(member, beat.phase.substr(0, 64), age, now());
    for (const auto& [name, value] : beat.gauges) {
      gang.master.gauge(member, name.substr(0, 64), value);
      if (trace) {
        trace->counters(pid(gang, member), name, {{"value", value}},
                        machine.now());
      }
    }
  }
  void on(OpenGang& gang, int member, const Begin& m) {
    gang.master.begin(member, m, now());
  }
  void on(OpenGang& gang, int member, const Ready& m) {
    gang.master.ready(member, m, now());
  }
  void on(OpenGang& gang, int member, const Failed& m) {
    gang.master.failed(member, m, now());
  }
  void on(OpenGang& gang, int member, const Left&) {
    gang.master.left_step(member, now());
  }
  void on(OpenGang& gang, int member, const Leave&) {
    gang.master.left(member, "left in the middle of a step", now());
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
    Session* session = seat(gang, member).session.get();
    const std::string* value = gang.store.find(key);
    if (session != nullptr && value != nullptr) {
      send(*session, StoreValue{key, *value});
    }
  }

  // Passes on what the master has decided.
  void pump(OpenGang& gang) {
    for (GangMaster::Outgoing& out : gang.master.take_orders()) {
      Session* session = seat(gang, out.member).session.get();
      if (session == nullptr) continue;
      std::visit([&](auto& m) { send(*session, std::move(m)); }, out.order);
    }
    for (GangEvent& event : gang.master.take_events()) {
      if (event.kind == GangEvent::Kind::lost) {
        drop_session(gang, event.member);
      }
      events.push_back(std::move(event));
    }
    for (const GangMark& mark : gang.master.take_marks()) {
      if (!trace) continue;
      if (mark.counters.empty()) {
        trace->instant(gang.pid, mark.name, machine.now());
      } else {
        trace->counters(gang.pid, mark.name, mark.counters, machine.now());
      }
    }
  }

  void repeat(OpenGang& gang) {
    for (size_t i = 0; i < gang.seats.size(); ++i) {
      Session* session = gang.seats[i].session.get();
      if (session == nullptr) continue;
      if (session->link.pending() > kMostPending) {
        gang.master.lost(static_cast<int>(i), "it takes nothing any more",
                         now());
        continue;
      }
      for (std::string& bytes : session->link.repeats(now())) {
        post(session->peer, std::move(bytes));
      }
    }
  }

  template <class M>
  void send(Session& session, M message) {
    post(session.peer,
         session.link.send(std::move(message), session.begun, now()));
  }

  void post(const std::string& peer, std::string bytes) {
    outbox.push_back({peer, std::move(bytes)});
  }

  void tell(const std::string& peer, Message message) {
    post(peer, ReliableLink().send_unnumbered(std::move(message)));
  }

  void drop_session(OpenGang& gang, int member) {
    std::unique_ptr<Session>& session = seat(gang, member).session;
    if (!session) return;
    peers.erase(session->peer);
    session.reset();
    gang.store.forget(member);
  }

  OpenGang* find(const std::string& name) {
    const auto found = gangs.find(name);
    return found == gangs.end() ? nullptr : found->second.get();
  }
  static Seat& seat(OpenGang& gang, int member) {
    return gang.seats.at(static_cast<size_t>(member));
  }

  static int pid(const OpenGang& gang, int member) {
    return gang.pid + 1 + member;
  }

  void name_in_trace(const OpenGang& gang) {
    const GangOptions& options = gang.master.options();
    trace->name_process(gang.pid, "gang " + options.gang, options.gang);
    for (int m = 0; m < gang.master.members(); ++m) {
      const std::string& node = options.nodes[static_cast<size_t>(m)];
      trace->name_process(pid(gang, m),
                          node.empty() ? fmt::format("rank {}", m)
                                       : fmt::format("rank {} ({})", m, node),
                          options.gang);
    }
  }

  // Tells members whether to record.
  void record(bool on) {
    for (auto& [name, gang] : gangs) {
      for (Seat& seat : gang->seats) {
        if (seat.session) send(*seat.session, TraceOn{on});
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
  std::vector<GangDesk::Outgoing> outbox;
  std::vector<GangEvent> events;
  std::unique_ptr<TraceFile> trace;
  int64_t sessions = 0;
  int next_pid = 0;
};

GangDesk::GangDesk(const Clock& clock) : impl_(std::make_unique<Impl>(clock)) {}
GangDesk::~GangDesk() = default;

void GangDesk::receive(const std::string& peer, std::string_view bytes) {
  Packet packet;
  try {
    packet = decode(bytes);
  } catch (const Error&) {
    // No word of this language: whoever says it is no member, or a broken one
    // that falls silent.
    return;
  }
  impl_->receive(peer, std::move(packet));
}

void GangDesk::tick() {
  impl_->turns.turn();
  for (auto& [name, gang] : impl_->gangs) {
    impl_->attempt(*gang, [&] {
      gang->master.tick(impl_->now());
      impl_->repeat(*gang);
    });
  }
  impl_->flush_trace();
}

bool GangDesk::idle() const { return impl_->gangs.empty(); }

std::vector<GangDesk::Outgoing> GangDesk::take_outbox() {
  return std::exchange(impl_->outbox, {});
}

bool GangDesk::has_events() const { return !impl_->events.empty(); }

std::vector<GangEvent> GangDesk::take_events() {
  return std::exchange(impl_->events, {});
}

void GangDesk::open(const GangOptions& options) {
  auto gang =
      std::make_unique<OpenGang>(options, impl_->next_pid, impl_->now());
  impl_->next_pid += 1 + gang->master.members();
  if (impl_->trace) impl_->name_in_trace(*gang);
  std::erase_if(impl_->closed_gangs,
                [&](const auto& e) { return e.first == options.gang; });
  impl_->gangs[options.gang] = std::move(gang);
}

void GangDesk::close(const std::string& gang, const std::string& why) {
  OpenGang* open = impl_->find(gang);
  if (open == nullptr) return;
  open->master.close(why);
  impl_->pump(*open);
  std::erase_if(impl_->peers,
                [&](const auto& e) { return e.second.gang == gang; });
  impl_->closed_gangs.emplace_back(gang, why);
  if (impl_->closed_gangs.size() > kClosedKept) {
    impl_->closed_gangs.pop_front();
  }
  impl_->gangs.erase(gang);
}

void GangDesk::close_all(const std::string& why) {
  while (!impl_->gangs.empty()) {
    const std::string name = impl_->gangs.begin()->first;
    close(name, why);
  }
}

void GangDesk::member_lost(const std::string& gang, int member,
                           const std::string& why) {
  OpenGang* open = impl_->find(gang);
  if (open == nullptr || member < 0 || member >= open->master.members()) return;
  impl_->attempt(*open, [&] { open->master.lost(member, why, impl_->now()); });
}

GangStatus GangDesk::status(const std::string& gang) const {
  const OpenGang* open = impl_->find(gang);
  return open == nullptr ? GangStatus() : open->master.status(impl_->now());
}

void GangDesk::trace_to(const std::filesystem::path& file) {
  impl_->trace = std::make_unique<TraceFile>(file, impl_->machine.now());
  for (auto& [name, gang] : impl_->gangs) impl_->name_in_trace(*gang);
  impl_->record(true);
}

}  // namespace dtune::gang
