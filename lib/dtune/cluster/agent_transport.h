// Carries messages between a coordinator and its agents: over sockets, or, in a
// simulation, between objects of one process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/comm/listener.h"

namespace dtune {

// Not thread-safe. The first frame of what is received, and of what send()
// takes, is the peer: unique while it is connected.
class AgentTransport {
 public:
  virtual ~AgentTransport() = default;

  // Waits for messages, for `patience` at most or until `wakeup` is notified,
  // and hands over what has come; `handle` may send.
  virtual void poll(Duration patience, Wakeup& wakeup,
                    const std::function<void(Frames)>& handle) = 0;
  // All frames or none; does not block. False where the peer is gone or its
  // queue is full.
  virtual bool send(Frames frames) = 0;
  // The key of the peer whose message is being handled; "": it is local.
  virtual const std::string& sender() const = 0;
  // Of a peer's frame: it is on this machine.
  virtual bool is_local(const std::string& peer) const = 0;
  // Which connections were refused, and why, since the last call.
  virtual std::vector<std::string> take_notices() = 0;
  // Where agents connect to; "": nowhere.
  virtual std::string local_endpoint() const = 0;
  virtual std::string remote_endpoint() const = 0;
};

// Binds; throws as Listener.
std::shared_ptr<AgentTransport> listen_for_agents(const ListenOptions& options);

}  // namespace dtune
