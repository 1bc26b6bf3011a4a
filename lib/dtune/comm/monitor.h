// What becomes of a socket's connections, so that a failed handshake is shown
// instead of looking like silence.
#pragma once

#include <string>
#include <vector>

#include "dtune/comm/socket.h"

namespace dtune {

enum class ConnectionEvent {
  unreachable,  // nothing listens there, or no route leads there; tried again
  established,  // connected, and the handshake is done
  denied,       // the peer does not let this key in; libzmq gives up
  mismatched,   // no common handshake: no keys, or another server's key
  broken,       // an established connection is lost; tried again
};

// Owned by the thread of its socket; destroy it before the socket.
class ConnectionMonitor {
 public:
  ConnectionMonitor(const SocketContext& context, const Socket& socket);
  ~ConnectionMonitor();
  ConnectionMonitor(const ConnectionMonitor&) = delete;
  ConnectionMonitor& operator=(const ConnectionMonitor&) = delete;

  // What happened since the last call; does not block.
  std::vector<ConnectionEvent> take();
  void* handle() const { return events_; }

 private:
  void* socket_;
  void* events_;
};

}  // namespace dtune
