// What both kinds of parameter servers do with their sockets.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dtune/comm/listener.h"
#include "dtune/parameter_server/ps_protocol.h"
#include "dtune/parameter_server/ps_shard.h"

namespace dtune {

struct PsRequest {
  std::string peer;
  Frames frames;  // that the message's piece is in
  ps::Message message;
};

// A server's router and which peer is which member. Not thread-safe.
class PsEndpoint {
 public:
  PsEndpoint(const SocketContext& context, ListenOptions listen);

  std::string endpoint() const;
  void add_to(PollSet& polls) const { listener_.add_to(polls); }
  // Hands over what has come, as Listener::receive_all; what is no message is
  // dropped.
  bool receive_all(const std::function<void(const PsRequest&)>& handle);

  // False where the peer is gone.
  bool send(const std::string& peer, const ps::Message& message);
  // Values in pieces. False where the peer is gone or lacks some of them: it
  // must not get the message that it has all.
  bool send_values(const std::string& peer, ps::Piece head,
                   std::span<const float> values,
                   std::span<const ps::Range> pieces);

  // Workers by member. A new peer of a member replaces the one before.
  void know(int member, const std::string& peer);
  int member_of(const std::string& peer) const;  // -1: none
  const std::string& peer_of(int member) const { return peers_.at(member); }
  bool send_to(int member, const ps::Message& message);
  void send_to_all(const ps::Message& message);
  // The weights, to a worker that was ordered to have them.
  void serve(PsShard& shard, const ps::Serve& order);
  // Weights' companions, at the end of a step.
  void send_state(int member, PsShard& shard, uint64_t session);
  void forget_all();

  // A greeting for a step that this server has not begun: others may hear of
  // it first. Without pieces of values; the oldest give way.
  void keep(const PsRequest& greeting);
  std::vector<PsRequest> take_kept() { return std::exchange(kept_, {}); }

 private:
  Listener listener_;
  std::map<std::string, int> members_;
  std::map<int, std::string> peers_;
  std::vector<PsRequest> kept_;
};

// Throws the error of a Broken.
[[noreturn]] void throw_broken(const ps::Broken& broken);

}  // namespace dtune
