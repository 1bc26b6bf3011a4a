// How the messages of a gang are written (their meaning: messages.h), and
// what a member and its server say besides, to stay in touch.
//
// One ZeroMQ message is one frame (wire/fields.h), a packet. Beside the
// message's own fields it has
//   sequence  1, 2, ... of what must arrive, once and in order, although
//             connections break (reliable_link.h); 0: may get lost
//   ack       the last sequence received from the other side
//   begun     begin: its number at this member; orders: the last begin that the
//             server knew of when it gave them, so that a member can see what
//             belongs to a step that it has left
//
//   type       | from   | when
//   -----------+--------+----------------------------------------------------
//   join       | member | first, and after each `again`
//   welcome    | server | answer; `fresh`: it has no state of this member
//   again      | server | to an unknown sender: join
//   heartbeat  | member | every interval: phase and gauges
//   pong       | server | answer, with both clocks (NTP's way, RFC 5905 sec. 8)
//   begin, ready, failed, left, leave | member | see messages.h and client.h
//   regroup, go, catch_up, evicted, closed | server | orders
//   set, get, value | both | the store; a get is answered once it is set
//   trace      | member | spans and counters; trace_on: server
//
// Cost of a round of n members: n ready (some 250 bytes) and n go (some 300
// bytes); each member adds a heartbeat and a pong an interval.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dtune/gang/messages.h"
#include "dtune/gang/trace.h"

namespace dtune::gang {

inline constexpr int kMaxMembers = 4096;
inline constexpr size_t kTraceEventsAMessage = 1000;

struct Join {
  std::string gang;
  int member = 0;
  std::string process;  // unique: distinguishes two that claim one place
  int64_t session = 0;  // of an earlier welcome; 0: none
};

struct Welcome {
  int64_t session = 0;
  bool fresh = false;
  int64_t heartbeat_ns = 0;
  int64_t lease_ns = 0;
  bool trace = false;
};

struct Again {};

struct Heartbeat {
  std::string phase;
  int64_t number = -1;
  int64_t phase_ns = 0;  // for how long
  int64_t clock_ns = 0;  // the member's
  std::map<std::string, double> gauges;
};

struct Pong {
  int64_t echo_ns = 0;   // heartbeat's clock_ns
  int64_t clock_ns = 0;  // the server's, between receiving and answering
};

struct Left {};   // the step
struct Leave {};  // the gang

struct StoreSet {
  std::string key;
  std::string value;
};
struct StoreGet {
  std::string key;
};
struct StoreValue {
  std::string key;
  std::string value;
};

struct TraceOn {
  bool on = false;
};

// A TraceEvent on the wire: lanes are any text there.
struct TraceItem {
  TraceEvent::Kind kind = TraceEvent::Kind::span;
  std::string lane;
  std::string name;
  int64_t begin_ns = 0;  // of the member's clock
  int64_t duration_ns = 0;
  double value = 0;
};

struct TraceChunk {
  int64_t offset_ns = 0;  // to add for the server's clock
  std::vector<TraceItem> events;
};

using Message =
    std::variant<Join, Welcome, Again, Heartbeat, Pong, Begin, Ready, Failed,
                 Left, Leave, Regroup, Go, CatchUp, GiveUp, Evicted, Closed,
                 StoreSet, StoreGet, StoreValue, TraceOn, TraceChunk>;

struct Packet {
  int64_t sequence = 0;
  int64_t ack = 0;
  int64_t begun = 0;
  Message message;
};

const char* type_name(const Message& message);

// What people see of a gang's name: what comes after "-" is a secret of its
// members.
inline std::string label(const std::string& gang) {
  return gang.substr(0, gang.find('-'));
}

// Throws Error(comm) where it is larger than wire::kMaxFrameBytes.
std::string encode(Packet packet);

// Throws Error(comm), never anything else, whatever the bytes are. What it
// returns has sizes, counts, spans and member numbers that are not negative and
// do not overflow when they are added up.
Packet decode(std::string_view bytes);

}  // namespace dtune::gang
