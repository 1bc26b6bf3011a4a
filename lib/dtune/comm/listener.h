// Where a server of the control plane can be reached: over a local socket by
// processes of this user on this machine, and, where others may join, over TCP
// by those whose key is allowed. Behaves as one router.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dtune/comm/socket.h"

namespace dtune {

struct ListenOptions {
  std::string local;   // ipc://..., or tcp:// on loopback; "": none
  std::string remote;  // tcp://address:port beyond loopback; "": none
  size_t max_message_bytes = kControlMessageBytes;
};

// Not thread-safe. The first frame of what receive() returns, and of what
// send() takes, is the peer: unique over both sockets while it is connected.
class Listener {
 public:
  // Throws as Socket::bind.
  Listener(const SocketContext& context, const ListenOptions& options);

  void add_to(PollSet& polls) const;
  std::optional<Frames> receive();
  // As Socket::send.
  bool send(Frames frames);

  // With the port that the system chose; "" where there is none.
  std::string local_endpoint() const;
  std::string remote_endpoint() const;

 private:
  std::optional<Socket> local_;
  std::optional<Socket> remote_;
  bool remote_first_ = false;  // whose turn it is: neither starves the other
};

}  // namespace dtune
