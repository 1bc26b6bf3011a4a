// The unknown connections of a gateway, by the networks that they come from:
// which of them is closed where there are too many, and whose HELLO is opened
// next. Opening costs public-key operations, so there is a limit of them, and
// networks take turns: what floods the port from one network delays no other.
// A network is an IPv4 address, or an IPv6 prefix of 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "dtune/base/clock.h"

namespace dtune::gateway {

struct HelloPace {
  double per_second = 1000;
  double at_once = 2000;  // after a time without any
};

// Ids are above 0, and grow with time. Not thread-safe.
class UnknownConnections {
 public:
  explicit UnknownConnections(const HelloPace& pace)
      : pace_(pace), saved_(pace.at_once) {}

  void add(uint64_t id, const std::string& network);
  // Where it is still there; nothing else.
  void remove(uint64_t id, const std::string& network);
  // A connection from here has an allowed key.
  void trust(const std::string& network) { trusted_.insert(network); }

  size_t count() const { return count_; }
  size_t count_of(const std::string& network) const;
  // The oldest one of the network that has most; where several have as many, of
  // one that has shown no allowed key yet. 0: there is none.
  uint64_t one_too_many() const;

  // Its HELLO waits to be opened.
  void wait(uint64_t id, const std::string& network);
  // Whose HELLO is to be opened now; 0: none.
  uint64_t next(MonoTime now);
  // How long next() has nothing to open; `most` at most.
  Duration pause(Duration most) const;

 private:
  struct Network {
    std::set<uint64_t> all;
    std::set<uint64_t> waiting;
  };
  void save(MonoTime now);

  const HelloPace pace_;
  std::map<std::string, Network> networks_;
  std::set<std::string> trusted_;
  std::string last_turn_;  // the network whose HELLO was opened last
  size_t count_ = 0;
  size_t waiting_ = 0;
  double saved_;  // HELLOs that may be opened at once
  MonoTime counted_{};
};

}  // namespace dtune::gateway
