#include "cluster/network.h"

#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

namespace dtune::toy {
namespace {

bool run(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

}  // namespace

Network::Network() : tag_(fmt::format("dt{}", getpid())) {
  ready_ = geteuid() == 0 && build();
}

Network::~Network() {
  for (const char* side : {"a", "b"}) run("ip netns del " + tag_ + side);
}

std::vector<std::string> Network::inside(const std::string& side) const {
  return {"ip", "netns", "exec", tag_ + side};
}

bool Network::build() const {
  return run("ip netns add " + tag_ + "a") &&
         run("ip netns add " + tag_ + "b") &&
         run(fmt::format("ip -n {0}a link add e{0}a type veth peer name e{0}b "
                         "netns {0}b",
                         tag_)) &&
         join("a", kAddressA) && join("b", kAddressB);
}

bool Network::join(const std::string& side, const std::string& address) const {
  const std::string name = tag_ + side;
  return run(fmt::format("ip -n {} link set lo up", name)) &&
         run(fmt::format("ip -n {0} addr add {1}/24 dev e{0}", name,
                         address)) &&
         link(side, "up");
}

bool Network::link(const std::string& side, const std::string& state) const {
  return run(
      fmt::format("ip -n {0}{1} link set e{0}{1} {2}", tag_, side, state));
}

bool Network::wall(const std::string& side,
                   const std::vector<std::string>& ports) const {
  const std::string rule =
      fmt::format("ip netns exec {}{} iptables -A INPUT ", tag_, side);
  bool built =
      run(rule + "-i lo -j ACCEPT") &&
      run(rule + "-m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT");
  for (const std::string& port : ports) {
    built = built && run(rule + "-p tcp --dport " + port + " -j ACCEPT");
  }
  return built && run(rule + "-j DROP");
}

bool Network::route(const std::string& side, const std::string& change) const {
  return run(fmt::format("ip -n {}{} route {} blackhole {}/32", tag_, side,
                         change, side == "a" ? kAddressB : kAddressA));
}

}  // namespace dtune::toy
