// The server of gangs, fed with what members could say: sequences of messages
// that are well-formed, mostly fit the last orders, and sometimes do not.
// Whatever they are, nothing is thrown, and what it sends can be read.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "choices.h"

#include "dtune/base/clock.h"
#include "dtune/gang/protocol.h"
#include "dtune/gang/registry.h"

namespace {

using namespace dtune;        // NOLINT: a program of its own
using namespace dtune::gang;  // NOLINT
using fuzz::Choices;

constexpr int kMembers = 3;
constexpr size_t kMostMessages = 200;

GangOptions options_of(Choices& from) {
  GangOptions options;
  options.gang = "7.1-secret";
  ParallelSpec& parallel = options.parallel;
  switch (from.below(4)) {
    case 0:
      parallel.mode = ParallelMode::data;
      parallel.ranks = kMembers;
      break;
    case 1:
      parallel.mode = ParallelMode::data;
      parallel.sync = SyncKind::ps;
      parallel.ranks = kMembers - 1;
      break;
    case 2:
      parallel.mode = ParallelMode::model;
      parallel.ranks = kMembers;
      break;
    default:
      parallel.mode = ParallelMode::data;
      parallel.ranks = kMembers;
      parallel.stragglers = StragglerPolicy::off;
  }
  options.nodes.assign(static_cast<size_t>(gang_members(parallel)), "node");
  return options;
}

// A member as its peer in the conversation knows it.
struct Peer {
  int64_t sequence = 0;
  int64_t heard = 0;
  int64_t begun = 0;
  int64_t round = 1;
  int64_t updates = 0;
  int incarnation = 1;
  int step = 1;
};

class Conversation {
 public:
  explicit Conversation(Choices& from) : from_(from), registry_(clock_) {
    registry_.open(options_of(from_));
  }

  void run() {
    for (size_t i = 0; i < kMostMessages && !from_.done(); ++i) {
      turn();
      read_orders();
      registry_.take_events();
      registry_.status("7.1-secret");
    }
    registry_.close_all("over");
    read_orders();
  }

 private:
  void turn() {
    switch (from_.below(12)) {
      case 0:
        clock_.advance(std::chrono::milliseconds(20 << from_.below(12)));
        [[fallthrough]];
      case 1:
        return registry_.tick();
      case 2:
        if (from_.rarely(4)) {
          registry_.member_lost(
              "7.1-secret", static_cast<int>(from_.below(kMembers)), "died");
        }
        return;
      default: {
        const auto peer = static_cast<int>(from_.below(kMembers + 1));
        registry_.receive(name_of(peer), packet_of(peers_[peer]));
      }
    }
  }

  static std::string name_of(int peer) { return "peer" + std::to_string(peer); }

  std::string packet_of(Peer& peer) {
    Packet packet;
    packet.message = message_of(peer);
    const bool unnumbered = std::holds_alternative<Join>(packet.message) ||
                            std::holds_alternative<Heartbeat>(packet.message);
    packet.sequence = unnumbered         ? 0
                      : from_.rarely(16) ? from_.number()
                                         : ++peer.sequence;
    packet.ack = from_.rarely(16) ? from_.number() : peer.heard;
    packet.begun = from_.rarely(16) ? from_.number() : peer.begun;
    return encode(packet);
  }

  Message message_of(Peer& peer) {
    switch (from_.below(11)) {
      case 0:
        peer = {};
        return Join{.gang = from_.rarely(8) ? "none" : "7.1-secret",
                    .member = static_cast<int>(from_.below(kMembers + 1)),
                    .process = from_.text(),
                    .session = from_.rarely(4) ? from_.number() : 0};
      case 1:
        ++peer.begun;
        return begin_of(peer);
      case 2:
      case 3:
      case 4:
        return ready_of(peer);
      case 5:
        return Failed{around(peer.round),
                      static_cast<int>(around(peer.incarnation)),
                      around(peer.updates), "reduction"};
      case 6:
        return Heartbeat{.phase = from_.text(),
                         .number = from_.number(),
                         .phase_ns = from_.number(),
                         .clock_ns = from_.number(),
                         .gauges = {{from_.text(), from_.real()}}};
      case 7:
        return from_.rarely(2) ? Message(Left{}) : Message(Leave{});
      case 8:
        return StoreSet{from_.text(), from_.text()};
      case 9:
        return StoreGet{from_.text()};
      default:
        return TraceChunk{from_.number(),
                          {{TraceEvent::Kind::span, from_.text(), from_.text(),
                            from_.number(), from_.number(), from_.real()}}};
    }
  }

  // What was said last; sometimes something else.
  int64_t around(int64_t value) {
    return from_.rarely(8) ? from_.number() : value;
  }

  Begin begin_of(const Peer& peer) {
    Begin begin;
    begin.step = static_cast<int>(around(peer.step));
    begin.updates = around(peer.updates);
    begin.position = around((int64_t{begin.step} - 1) * 100);
    begin.end = around(100);
    begin.epoch_samples = around(100);
    begin.batch_size = around(32);
    begin.evaluation_batches = around(2);
    begin.own_training = from_.rarely(4);
    return begin;
  }

  Ready ready_of(Peer& peer) {
    Ready ready;
    ready.round = around(peer.round);
    ready.updates = around(peer.updates);
    ready.totals.samples = around(32);
    ready.totals.weight = from_.real();
    ready.totals.loss = from_.real();
    ready.totals.correct = around(1);
    ready.times.samples = around(32);
    ready.times.forward = from_.real();
    ready.metrics = {{"val_accuracy", from_.real()}};
    ready.complete = !from_.rarely(4);
    return ready;
  }

  void read_orders() {
    for (const auto& out : registry_.take_outbox()) {
      Packet packet = decode(out.bytes);
      for (auto& [number, peer] : peers_) {
        if (name_of(number) != out.peer) continue;
        peer.heard = std::max(peer.heard, packet.sequence);
        follow(peer, packet.message);
      }
    }
  }

  static void follow(Peer& peer, const Message& message) {
    if (const auto* regroup = std::get_if<Regroup>(&message)) {
      peer.incarnation = regroup->incarnation;
      peer.step = regroup->step;
      peer.updates = regroup->updates;
      peer.round = regroup->work.round;
    } else if (const auto* go = std::get_if<Go>(&message)) {
      peer.updates += go->totals.samples > 0 ? 1 : 0;
      peer.round = go->next.round;
      if (go->last) ++peer.step;
    } else if (const auto* late = std::get_if<CatchUp>(&message)) {
      peer.updates = late->updates;
      peer.round = late->work.round;
    }
  }

  Choices& from_;
  ManualClock clock_;
  GangRegistry registry_;
  std::map<int, Peer> peers_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Choices from(data, size);
  Conversation(from).run();
  return 0;
}
