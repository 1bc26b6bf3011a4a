// Two machines, as far as their network goes: namespaces joined by a cable
// (veth) that can be pulled at either end. Needs root and iproute2.
#pragma once

#include <string>
#include <vector>

namespace dtune::toy {

// Not thread-safe; one in a process at a time. Removed when destroyed.
class Network {
 public:
  Network();
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // False where there can be none; a test then says so and is skipped.
  bool ready() const { return ready_; }
  // The cable's end at "a" or "b".
  bool pull(const std::string& side) const { return link(side, "down"); }
  bool plug(const std::string& side) const { return link(side, "up"); }
  // What the machine at that end sends is lost; it hears the other one.
  bool mute(const std::string& side) const { return route(side, "add"); }
  bool unmute(const std::string& side) const { return route(side, "del"); }
  // That end lets in new TCP connections to these ports ("5555", "5600:5699")
  // alone. False: there are no iptables.
  bool wall(const std::string& side,
            const std::vector<std::string>& ports) const;
  // Words to put before a command.
  std::vector<std::string> inside(const std::string& side) const;

  static constexpr const char* kAddressA = "10.213.7.1";
  static constexpr const char* kAddressB = "10.213.7.2";

 private:
  bool build() const;
  bool join(const std::string& side, const std::string& address) const;
  bool link(const std::string& side, const std::string& state) const;
  bool route(const std::string& side, const std::string& change) const;

  const std::string tag_;
  bool ready_ = false;
};

}  // namespace dtune::toy
