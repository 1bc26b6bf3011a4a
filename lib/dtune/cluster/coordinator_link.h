// An agent's connection to its coordinator, and what is wrong with it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "dtune/comm/monitor.h"
#include "dtune/comm/socket.h"

namespace dtune {

// Not thread-safe; nothing blocks but the resolving of host names.
class CoordinatorLink {
 public:
  // Connects; says at which address. Throws Error(config) for an address that
  // means nothing, or that is beyond this machine while there are no keys.
  CoordinatorLink(const std::string& endpoint,
                  const std::optional<CurveClient>& curve);

  const Socket& socket() const { return *socket_; }
  std::optional<Frames> receive() { return socket_->receive(); }
  bool send(const Frames& frames) { return socket_->send(frames); }

  // Drops the connection and makes another: what was on its way is lost.
  void reconnect();

  // Looks at what happened to the connection. Throws Error(config) where the
  // coordinator does not let this machine in.
  void check();
  // Why nothing comes; "" where it is connected.
  const std::string& trouble() const { return trouble_; }

 private:
  void connect();

  const std::string endpoint_;
  const std::optional<CurveClient> curve_;
  SocketContext context_;
  std::unique_ptr<Socket> socket_;
  std::unique_ptr<ConnectionMonitor> monitor_;
  std::string address_;  // numeric
  std::string hint_;     // what is odd about the address
  std::string trouble_;
  int mismatches_ = 0;     // in a row
  bool admitted_ = false;  // by this coordinator's key, since this began
};

}  // namespace dtune
