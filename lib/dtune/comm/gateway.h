// One TCP port for all servers of a study that other machines may reach, and a
// bound on what unknown connections cost there: a gateway takes the
// connections, and passes their bytes on over a local socket, which only this
// user can open, to ZeroMQ. Each server has a key pair of its own. The gateway
// answers a client's greeting, finds out from its first message (curve_hello.h)
// which server's key it knows, and reads no more than that: CURVE is between
// client and server. A client that knows none of them is closed.
//
// A connection is unknown until its server has received a whole message from a
// key that is allowed. Costs have these bounds, since ZeroMQ has none for
// connections nor for the parts of a message whose end does not come:
// - `most_unknown` unknown connections: more, and the oldest one of the network
//   that has most is closed; `unknown_bytes` of each wait at a server, and
//   more, as long as all of them have less than `unknown_pool` there (the first
//   message over a connection may be a large one);
// - `hellos` first messages are opened (up to one public-key operation a
//   server), networks in turn, and between two of them the bytes of all
//   connections are passed on: unknown ones do not delay others;
// - `most_of_key` connections of one key to one server: more are closed;
// - `window` bytes of one connection, and `key_window` of all of one key, wait
//   at a server: then no more is read from the network; after `stall` of that
//   the connection is closed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/base/port_range.h"
#include "dtune/comm/unknown_connections.h"

namespace dtune {

struct GatewayOptions {
  std::string endpoint;  // tcp://address:port, numeric; port 0: any
  PortRange ports{};     // where the port is 0
  int most_unknown = 256;
  gateway::HelloPace hellos{};
  int most_of_key = 2048;
  uint64_t unknown_bytes = uint64_t{64} << 10;
  uint64_t unknown_pool = uint64_t{64} << 20;
  uint64_t window = uint64_t{16} << 20;
  uint64_t key_window = uint64_t{64} << 20;
  Duration silence = std::chrono::seconds(10);  // until its server is known
  Duration stall = std::chrono::seconds(60);
};

// Thread-safe; passes bytes on a thread of its own.
class Gateway {
 public:
  // Listens at once: throws as cannot_listen() (endpoint.h). Connections wait
  // until open(), so that no client is turned away while servers start.
  explicit Gateway(const GatewayOptions& options);
  // What servers have sent still goes out, within Socket::kLingerMs.
  ~Gateway();
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  // As clients connect to it, with its port.
  std::string endpoint() const;
  // Where a server of this secret key (Z85) binds.
  std::string add_server(const std::string& secret_key);
  // All servers are there.
  void open();

  // A server has received a whole message over its descriptor
  // (Socket::source()); `key`: who sent it, "" where it has proved none.
  void heard(int descriptor, const std::string& key);

  // What was closed, and why, since the last call.
  std::vector<std::string> take_notices();
  // Where the unknown connections of this moment come from; one address, as a
  // rule.
  std::string unknown_addresses() const;

  struct Load {
    int unknown = 0;      // connections
    int known = 0;        // connections
    uint64_t bytes = 0;   // that wait at servers
    uint64_t hellos = 0;  // that were opened so far
  };
  Load load() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtune
