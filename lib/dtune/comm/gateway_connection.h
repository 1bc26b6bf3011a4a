// One connection of a gateway: its descriptors, and the bytes between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "dtune/base/clock.h"
#include "dtune/base/descriptor.h"
#include "dtune/base/port_range.h"

namespace dtune::gateway {

// Bytes on their way from one descriptor to the other. Does not block.
class Flow {
 public:
  // Reads at most `most`; how many. At the end, or where the connection broke,
  // ended() is true.
  size_t read(int from, size_t most);
  // Of what will be read, the first bytes are dropped.
  void skip(size_t bytes) { skip_ = bytes; }
  void append(std::string_view bytes) { bytes_ += bytes; }
  std::string_view waiting() const {
    return std::string_view(bytes_).substr(done_);
  }
  // What can be written is; how much.
  size_t write(int to);
  bool empty() const { return done_ == bytes_.size(); }
  bool ended() const { return ended_; }
  void end() { ended_ = true; }

 private:
  std::string bytes_;
  size_t done_ = 0;  // of them were written
  size_t skip_ = 0;
  bool ended_ = false;
};

// Throws as cannot_listen() (endpoint.h). `endpoint`: numeric; port 0: one of
// the range.
int listening_socket(const std::string& endpoint, const PortRange& ports);
// A peer that went without a word would be kept for ever.
void notice_the_dead(int descriptor);

// Connects to the local socket at this path, from one that has a name of its
// own in the kernel; the name, or "" where nothing listens there.
std::string connect_local(const std::string& path, Descriptor& out);
// The name of the other end of a local socket; "": it is none.
std::string peer_name(int descriptor);
// The numeric address of the other end.
std::string peer_address(int descriptor);
// What counts as one origin (unknown_connections.h): the address, or the first
// 64 bits of one of IPv6.
std::string network_of(const std::string& address);

struct Connection {
  uint64_t id = 0;
  Descriptor client;
  Descriptor server;
  std::string address;  // of the client
  std::string network;  // network_of(address)
  std::string name;     // of the gateway's end of the local socket; "": none
  size_t server_number = 0;  // where there is one
  std::string key;           // of the client; "": unknown
  Flow in;                   // from the client
  Flow out;                  // to it
  uint64_t waiting = 0;      // bytes that the server has, of no whole message
  bool greeted = false;      // by the gateway
  bool asked = false;        // its HELLO is there
  bool paused = false;       // nothing is read from the client
  bool closing = false;      // as soon as the thread comes to it
  MonoTime begun{};
  MonoTime pause_began{};
  uint32_t client_events = 0;  // that epoll waits for
  uint32_t server_events = 0;

  bool known() const { return !key.empty(); }
};

}  // namespace dtune::gateway
