// Two machines, as far as their network goes: namespaces joined by a cable
// (veth) that can be pulled at either end. Needs root and iproute2.
#include <cstdlib>
#include <thread>

#include "cluster/remote_study.h"
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include "dtune/base/error.h"

using namespace dtune;  // NOLINT: a test

namespace {

using std::chrono::seconds;

bool run(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

// Removed when this is destroyed.
class Network {
 public:
  Network() : tag_(fmt::format("dt{}", getpid())) {
    drop();
    ready_ = geteuid() == 0 && add("a", "10.213.7.1") && add("b", "10.213.7.2");
  }
  ~Network() { drop(); }

  bool ready() const { return ready_; }
  // The cable's end at `side`.
  void pull(const std::string& side) { link(side, "down"); }
  void plug(const std::string& side) { link(side, "up"); }
  toy::RemoteStudy::Places places() const {
    return {{"ip", "netns", "exec", tag_ + "a"},
            {"ip", "netns", "exec", tag_ + "b"},
            "10.213.7.1",
            5555};
  }

 private:
  bool add(const std::string& side, const std::string& address) {
    const std::string name = tag_ + side;
    if (!run("ip netns add " + name)) return false;
    if (side == "b" &&
        !run(fmt::format("ip -n {0}a link add e{0}a type veth peer name e{0}b "
                         "netns {0}b",
                         tag_))) {
      return false;
    }
    if (side == "a") return run("ip -n " + name + " link set lo up");
    return run("ip -n " + name + " link set lo up") &&
           address_of("a", "10.213.7.1") && address_of("b", address);
  }
  bool address_of(const std::string& side, const std::string& address) {
    const std::string name = tag_ + side;
    return run(fmt::format("ip -n {0} addr add {1}/24 dev e{0}", name,
                           address)) &&
           run(fmt::format("ip -n {0} link set e{0} up", name));
  }
  void link(const std::string& side, const char* state) {
    REQUIRE(run(
        fmt::format("ip -n {0}{1} link set e{0}{1} {2}", tag_, side, state)));
  }
  void drop() {
    for (const char* side : {"a", "b"}) run("ip netns del " + tag_ + side);
  }

  const std::string tag_;
  bool ready_ = false;
};

// Says why where there can be none.
bool skipped(const Network& network) {
  if (network.ready()) return false;
  MESSAGE("skipped: network namespaces need root and iproute2 (ip netns)");
  return true;
}

}  // namespace

TEST_CASE("a study runs between two namespaces over CURVE") {
  const Network network;
  if (skipped(network)) return;
  toy::RemoteStudy study("netns", 4, 5, network.places());
  study.start_coordinator();
  CHECK(study.endpoint == "tcp://10.213.7.1:5555");
  Child& agent = study.start_agent("token1");
  CHECK(study.result() == 0);
  const toy::Ending ending = toy::ending_of(agent);
  CHECK_MESSAGE(ending.code == 0, ending.text);
}

TEST_CASE("a study goes on after the cable was pulled at either end") {
  for (const std::string side : {"a", "b"}) {
    CAPTURE(side);
    Network network;
    if (skipped(network)) return;
    toy::RemoteStudy study("partition", 8, 40, network.places());
    study.start_coordinator();
    study.start_agent("token1");
    REQUIRE(study.trains(3));
    network.pull(side);
    CHECK(study.notices("node far has been silent"));
    network.plug(side);
    CHECK(study.notices("node far is back"));
    CHECK(study.result() == 0);
  }
}

TEST_CASE("a connection that died without a word is replaced") {
  Network network;
  if (skipped(network)) return;
  toy::RemoteStudy study("halfopen", 6, 30, network.places());
  study.start_coordinator();
  Child& first = study.start_agent("token1", "one");
  REQUIRE(study.trains(3));
  network.pull("b");  // neither FIN nor RST reaches the coordinator
  kill(first.pid(), SIGKILL);
  CHECK(study.notices("node far has been silent"));
  network.plug("b");
  study.start_agent("token2", "two", "next");
  CHECK(study.result() == 0);
  CHECK(study.said().find("node next has joined") != std::string::npos);
}

TEST_CASE("a machine that cannot be reached is said as such") {
  Network network;
  if (skipped(network)) return;
  toy::RemoteStudy study("unreached", 1, 5, network.places());
  study.start_coordinator();
  network.pull("a");
  const toy::Ending ending = toy::ending_of(study.start_agent("token1"));
  CHECK(ending.code == kExitTemporary);
  CHECK(ending.text.find("nobody answers at this address") !=
        std::string::npos);
}
