// All gangs of a server and the sessions of their members: which member has
// which connection, what came twice or is missing, which message goes where.
// Has no threads and no sockets; where tick() is late, members are not charged
// for it.
#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtune/base/error.h"
#include "dtune/base/turn_clock.h"
#include "dtune/gang/controller.h"
#include "dtune/gang/gang_trace.h"
#include "dtune/gang/reliable_link.h"
#include "dtune/gang/store.h"

namespace dtune::gang {

// A session is a process of a member, whatever its connections; it ends when
// the member is given up. A process that comes for a place takes it from the
// one before. Not thread-safe. One class, in two files: registry.cc (gangs and
// sessions), registry_messages.cc (messages of members).
class GangRegistry {
 public:
  struct Outgoing {
    std::string peer;  // as Listener names it
    std::string bytes;
  };

  // `clock` is the machine's, and outlives this.
  explicit GangRegistry(const Clock& clock = system_clock());

  // Whatever the bytes are; `key`: that their sender proved to have, "": none.
  void receive(const std::string& peer, std::string_view bytes,
               const std::string& key = "");
  void tick();
  std::vector<Outgoing> take_outbox() { return std::exchange(outbox_, {}); }

  bool idle() const { return gangs_.empty(); }  // no gang is open
  bool has_events() const { return !events_.empty(); }
  std::vector<GangEvent> take_events() { return std::exchange(events_, {}); }

  // As GangServer's.
  void open(const GangOptions& options);
  void close(const std::string& gang, const std::string& why);
  void close_all(const std::string& why);
  void admit(const std::string& gang, int member, const std::string& key);
  bool can_lose(const std::string& gang, int member) const;
  void member_lost(const std::string& gang, int member, const std::string& why);
  GangStatus status(const std::string& gang) const;
  void trace_to(const std::filesystem::path& file);

 private:
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
    std::optional<std::string> key;  // whose place it is; none: any one's
  };
  struct OpenGang {
    OpenGang(const GangOptions& options, int number_in_trace, MonoTime now)
        : controller(options, now),
          places(static_cast<size_t>(controller.members())),
          trace(number_in_trace) {}
    bool has(int member) const {
      return member >= 0 && member < controller.members();
    }
    Place& place(int member) { return places.at(static_cast<size_t>(member)); }

    GangController controller;
    std::vector<Place> places;
    GangStore store;
    int trace;  // its number there
  };
  // What a peer that is connected is.
  struct Peer {
    std::string gang;
    int member = 0;
  };

  // registry.cc
  MonoTime now() const { return turns_.now(); }
  OpenGang* find(const std::string& name) const;
  template <class Act>
  void attempt(OpenGang& gang, const Act& act);
  void pump(OpenGang& gang);
  void repeat(OpenGang& gang);
  void give_up(OpenGang& gang, int member, const std::string& why);
  void drop_session(OpenGang& gang, int member);
  template <class M>
  void send(Session& session, M message);
  void send_to(const std::string& peer, Message message);
  void enqueue(const std::string& peer, std::string bytes) {
    outbox_.push_back({peer, std::move(bytes)});
  }
  void record(bool on);
  void flush_trace();

  // registry_messages.cc
  void receive(const std::string& peer, Packet packet, const std::string& key);
  void on_join(const std::string& peer, const Join& join,
               const std::string& key);
  void replace(OpenGang& gang, int member, const std::string& process);
  void welcome(OpenGang& gang, const Join& join, const std::string& peer);
  void on(OpenGang& gang, int member, const Heartbeat& beat);
  void on(OpenGang& gang, int member, const Begin& begin);
  void on(OpenGang& gang, int member, const Ready& ready);
  void on(OpenGang& gang, int member, const Failed& failed);
  void on(OpenGang& gang, int member, const Left& left);
  void on(OpenGang& gang, int member, const Leave& leave);
  void on(OpenGang& gang, int member, const StoreSet& set);
  void on(OpenGang& gang, int member, const StoreGet& get);
  void on(OpenGang& gang, int member, const TraceChunk& chunk);
  template <class T>
  void on(OpenGang&, int, const T&) {}  // what only a member hears
  void answer(OpenGang& gang, int member, const std::string& key);

  const Clock& machine_;
  TurnClock turns_;  // what members are measured by
  std::map<std::string, std::unique_ptr<OpenGang>> gangs_;
  std::deque<std::pair<std::string, std::string>> closed_;  // name, why
  std::map<std::string, Peer> peers_;
  std::vector<Outgoing> outbox_;
  std::vector<GangEvent> events_;
  GangTrace trace_;
  int64_t sessions_ = 0;
  int next_in_trace_ = 0;
};

// Where a gang contradicts itself, which is our mistake or that of a member,
// its trial starts again from its checkpoint; no other gang is affected.
template <class Act>
void GangRegistry::attempt(OpenGang& gang, const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    gang.controller.close(error.what());
  }
  pump(gang);
}

template <class M>
void GangRegistry::send(Session& session, M message) {
  enqueue(session.peer,
          session.link.send(std::move(message), session.begun, now()));
}

}  // namespace dtune::gang
