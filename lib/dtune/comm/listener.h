// Where a server of the control plane can be reached: over a local socket by
// processes of this user on this machine, and, where others may join, over TCP
// by those whose key is allowed; what unknown connections and keys cost has the
// bounds of gateway.h. Behaves as one router.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtune/comm/curve.h"
#include "dtune/comm/gateway.h"
#include "dtune/comm/socket.h"
#include "dtune/comm/zap.h"

namespace dtune {

// What a remote endpoint needs.
struct ListenSecurity {
  CurveKeys keys;                      // the server's own
  std::shared_ptr<AllowList> allowed;  // clients' public keys; may be shared
  // The port that it shares with listeners of other keys; its owner opens it.
  // Null: it has its own.
  std::shared_ptr<Gateway> gateway;
  // Answers the keys of join tokens; null: there are none.
  std::shared_ptr<const EnrolmentHandler> enrolment;
};

struct ListenOptions {
  std::string local;  // ipc://..., or tcp:// on loopback; "": none
  // tcp://address:port; port 0: allowed_ports(); of the gateway where one is
  // shared; "": none
  std::string remote;
  size_t max_message_bytes = wire::kMaxFrameBytes;
  std::optional<ListenSecurity> security;  // of `remote`
  int remote_queue = 1'000;  // messages, each way, for every remote peer
};

// Not thread-safe. The first frame of what receive() returns, and of what
// send() takes, is the peer: unique over both sockets while it is connected.
class Listener {
 public:
  // Throws as Socket::bind, and Error(config) for what would admit unknown
  // clients: `local` beyond loopback, `remote` beyond loopback without
  // security, or on all interfaces ("tcp://*").
  Listener(const SocketContext& context, const ListenOptions& options);

  void add_to(PollSet& polls) const;
  // What comes from a key that is no longer allowed is dropped; enrolments are
  // answered.
  std::optional<Frames> receive();
  // Hands over what has come; `handle` may send. False where there may be more:
  // after 200 ms it returns, since peers may send without end and a server has
  // other things to do.
  bool receive_all(const std::function<void(Frames)>& handle);
  // The key of the peer that receive() heard last; "": it is local.
  const std::string& sender() const;
  // As Socket::send.
  bool send(Frames frames);

  // Which connections were refused, and why, since the last call.
  std::vector<std::string> take_notices();

  // With the port that the system chose; "" where there is none.
  std::string local_endpoint() const;
  std::string remote_endpoint() const;
  // Of a peer's frame: it came over the local socket.
  static bool is_local(const std::string& peer);

 private:
  std::optional<Frames> receive_remote();
  void answer_enrolment(const Frames& frames);

  std::shared_ptr<Gateway> gateway_;  // null: without security
  std::optional<Socket> local_;
  std::optional<Socket> remote_;
  std::shared_ptr<AllowList> allowed_;  // null: without security
  std::shared_ptr<const EnrolmentHandler> enrolment_;
  bool heard_remote_ = false;
  bool remote_first_ = false;  // whose turn it is: neither starves the other
};

}  // namespace dtune
