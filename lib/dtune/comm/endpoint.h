// Addresses of the control plane: what they mean before they are bound or
// connected to.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace dtune {

// "tcp://host:port"; `port` is 0 for "any" ("0" or "*"). IPv6 in brackets.
struct TcpEndpoint {
  std::string host;
  int port = 0;

  std::string text() const;
};

// Absent where the endpoint is not tcp. Throws Error(config) where it is tcp
// and wrongly written.
std::optional<TcpEndpoint> parse_tcp(const std::string& endpoint);

// The numeric address of a host or interface name; one that is no loopback is
// preferred. Blocks as the system's resolver does. Throws Error(config).
std::string resolve_host(const std::string& host);

// Of a numeric address: 127.0.0.0/8, ::1 and the like.
bool is_loopback(const std::string& address);

// "eth0 10.0.0.1", ...: where this machine could be reached by others (IPv4).
std::vector<std::string> interface_addresses();

// This host means this machine: "localhost", "lo" or a loopback
// address. Other names may stand for it by mistake.
bool names_loopback(const std::string& host);

// The endpoint with the numeric address of its host, for a server that other
// machines may reach. Throws Error(config) for what would admit unknown
// clients: an address beyond loopback where there are no keys, all interfaces
// ("tcp://*").
TcpEndpoint checked_remote(const std::string& endpoint, bool has_keys);

// What bind(2) said, `code`, in words that name the process that has the port.
// Throws Error(temporary), Error(config) or Error(comm).
[[noreturn]] void cannot_listen(const std::string& endpoint, int code);

// The endpoint reaches this machine alone: ipc, inproc, tcp on loopback.
bool is_local_endpoint(const std::string& endpoint);

// "process 4711 (postgres)" where this user may see it, else "". From
// /proc/net/tcp and tcp6.
std::string holder_of_port(int port);

}  // namespace dtune
