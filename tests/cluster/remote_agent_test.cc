// Agents that join over CURVE, on loopback: what they may do, what happens to
// them, and what strangers can do to a study.
#include <algorithm>
#include <array>
#include <thread>

#include "cluster/remote_study.h"
#include "cluster/toy.h"
#include "eventually.h"
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/cluster/agent_registry.h"
#include "dtune/comm/endpoint.h"
#include "dtune/comm/keys.h"
#include "dtune/store/trial_store.h"
#include "dtune/study/slots.h"

using namespace dtune;  // NOLINT: a test

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A registry that listens on loopback with CURVE, and scripted agents.
struct Port {
  explicit Port(const Clock& clock = system_clock()) {
    AgentRegistryOptions options;
    options.listen.remote = "tcp://127.0.0.1:0";
    options.listen.security = ListenSecurity{server, allowed};
    options.listen.remote_queue = 50;
    options.welcome.study_id = "s";
    options.welcome.heartbeat_ns = 100'000'000;
    options.welcome.lease_ns = 60'000'000'000;
    registry = std::make_unique<AgentRegistry>(options, clock);
  }

  std::unique_ptr<Socket> client(const CurveKeys& keys, int queue = 1000) {
    SocketOptions options;
    options.queue = queue;
    options.client = CurveClient{server.public_key, keys};
    auto socket =
        std::make_unique<Socket>(context, Socket::Kind::dealer, options);
    socket->connect(registry->remote_endpoint());
    return socket;
  }

  CurveKeys known() {
    const CurveKeys keys = generate_curve_keys();
    allowed->add(keys.public_key);
    return keys;
  }

  void send(Socket& socket, const Frames& frames) {
    REQUIRE(eventually([&] { return socket.send(frames); }));
  }
  void hello(Socket& socket, const std::string& name, int slots = 1) {
    control::Hello message;
    message.node = message.agent = name;
    message.slots = slots;
    send(socket, {encode(message)});
  }

  // Lets the registry work until `condition` holds.
  bool until(const std::function<bool()>& condition) {
    return eventually([&] {
      turn();
      return condition();
    });
  }
  void turn() {
    std::vector<RegistryEvent> events;
    registry->poll(milliseconds(5), wakeup, events);
    registry->check(events);
    for (const RegistryEvent& event : events) {
      if (const auto* notice = std::get_if<Notice>(&event)) {
        said += notice->text + "\n";
      }
      if (const auto* over = std::get_if<LeaseOver>(&event)) {
        ended.push_back(over->ended);
      }
    }
  }
  bool has_said(const std::string& text) {
    return until([&] { return said.find(text) != std::string::npos; });
  }
  // The next message of a type that a client gets.
  template <class T>
  std::optional<T> expect(Socket& socket) {
    std::optional<T> found;
    until([&] {
      while (const auto frames = found ? std::nullopt : socket.receive()) {
        for (const std::string& frame : *frames) {
          const control::Message message = decode(frame);
          if (const T* wanted = std::get_if<T>(&message)) found = *wanted;
        }
      }
      return found.has_value();
    });
    return found;
  }

  SocketContext context;
  const CurveKeys server = generate_curve_keys();
  std::shared_ptr<AllowList> allowed = std::make_shared<AllowList>();
  std::unique_ptr<AgentRegistry> registry;
  Wakeup wakeup;
  std::string said;
  std::vector<control::Ended> ended;
};

// What an agent says of a worker that has ended without being asked to.
control::Ended left_by_itself(int slot) {
  control::Ended ended;
  ended.slot = slot;
  ended.trial = ended.attempt = 1;
  ended.outcome = control::Outcome::failed;
  ended.reason = Reason::crashed;
  ended.exit_code = 0;
  ended.detail = "the worker process ended with exit code 0";
  return ended;
}

// An agent with two slots, of which the first holds a lease.
void join_with_lease(Port& port, Socket& agent) {
  port.hello(agent, "far", 2);
  port.send(agent,
            {encode(control::SlotUp{0, 1}), encode(control::SlotUp{1, 2})});
  REQUIRE(port.until([&] {
    return port.registry->slots().size() == 2 &&
           port.registry->slots()[1].state == SlotState::idle;
  }));
  port.registry->assign(0, control::Assign{.trial = 1, .attempt = 1});
}

// Bytes straight to a port; what a scanner or a confused program would send.
void throw_at(const std::string& endpoint, const std::string& bytes) {
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(parse_tcp(endpoint)->port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address),
              sizeof address) == 0) {
    (void)!send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    usleep(20'000);
  }
  close(descriptor);
}

}  // namespace

TEST_CASE(
    "a pause of the coordinator does not count as silence of its agents") {
  ManualClock clock;
  Port port(clock);
  const auto agent = port.client(port.known());
  port.hello(*agent, "far");
  REQUIRE(port.until([&] { return port.registry->present_agents() == 1; }));
  clock.advance(seconds(300));  // five leases
  port.turn();
  CHECK(port.registry->present_agents() == 1);
  for (int i = 0; i < 3; ++i) {
    clock.advance(seconds(25));
    port.turn();
  }
  CHECK(port.registry->present_agents() == 0);
  CHECK(port.said.find("node far has been silent for") != std::string::npos);
}

TEST_CASE("an agent joins a study over the network and needs no study id") {
  Port port;
  const auto agent = port.client(port.known());
  port.hello(*agent, "far", 2);
  const auto welcome = port.expect<control::Welcome>(*agent);
  REQUIRE(welcome);
  CHECK(welcome->study_id == "s");
  CHECK(port.registry->slots().size() == 2);
  CHECK(port.has_said("node far has joined with 2 slots"));
}

TEST_CASE("a worker's key is allowed while its process is up") {
  Port port;
  const auto agent = port.client(port.known());
  const std::string key = generate_curve_keys().public_key;
  port.hello(*agent, "far");
  port.send(*agent, {encode(control::SlotUp{0, 1, key})});
  CHECK(port.until([&] { return port.allowed->contains(key); }));
  const std::string next = generate_curve_keys().public_key;
  port.send(*agent, {encode(control::SlotDown{0, false, "died"})});
  port.send(*agent, {encode(control::SlotUp{0, 2, next})});
  CHECK(port.until([&] { return port.allowed->contains(next); }));
  CHECK(!port.allowed->contains(key));
  port.send(*agent, {encode(control::Bye{false, "leaves"})});
  CHECK(port.until([&] { return !port.allowed->contains(next); }));
}

TEST_CASE("a worker cannot claim another's key") {
  Port port;
  const CurveKeys other = port.known();
  const auto agent = port.client(port.known());
  port.hello(*agent, "far");
  port.send(*agent, {encode(control::SlotUp{0, 1, other.public_key})});
  REQUIRE(port.until([&] {
    const auto& slots = port.registry->slots();
    return !slots.empty() && slots[0].state == SlotState::idle;
  }));
  port.send(*agent, {encode(control::Bye{false, "leaves"})});
  REQUIRE(port.until([&] { return port.registry->present_agents() == 0; }));
  CHECK(port.allowed->contains(other.public_key));
}

TEST_CASE("a node whose key is revoked leaves at once") {
  Port port;
  const CurveKeys keys = port.known();
  const auto agent = port.client(keys);
  join_with_lease(port, *agent);
  port.allowed->remove(keys.public_key);
  REQUIRE(port.until([&] { return port.registry->present_agents() == 0; }));
  CHECK(port.said.find("node far may not take part any more") !=
        std::string::npos);
  REQUIRE(port.ended.size() == 1);
  CHECK(port.ended[0].reason == Reason::node_lost);
}

TEST_CASE("a key has its slots, whatever names its agents have") {
  Port port;
  const CurveKeys keys = port.known();
  const auto first = port.client(keys);
  port.hello(*first, "one", kMaxSlots);
  REQUIRE(port.expect<control::Welcome>(*first));
  const auto second = port.client(keys);
  port.hello(*second, "two");
  const auto bye = port.expect<control::Bye>(*second);
  REQUIRE(bye);
  CHECK(bye->why.find("4096 slots already") != std::string::npos);
  // Who has left makes room.
  port.send(*first, {encode(control::Bye{false, "leaves"})});
  REQUIRE(port.until([&] { return port.registry->present_agents() == 0; }));
  const auto third = port.client(keys);
  port.hello(*third, "three", kMaxSlots);
  REQUIRE(port.expect<control::Welcome>(*third));
  CHECK(port.registry->slots().size() == size_t{kMaxSlots});
  CHECK(port.registry->agent_of(port.registry->slots()[0]).name == "three");
}

TEST_CASE("a key has a bounded number of agents, and what left is forgotten") {
  Port port;
  const CurveKeys keys = port.known();
  const auto socket = port.client(keys);
  constexpr int kMost = 1024;
  for (int i = 0; i < kMost; ++i) {
    port.hello(*socket, "agent" + std::to_string(i));
  }
  REQUIRE(port.until([&] { return port.registry->present_agents() == kMost; }));
  // By a connection of its own: what 1,024 agents are sent fills a queue.
  const auto late = port.client(keys);
  port.hello(*late, "one more");
  const auto bye = port.expect<control::Bye>(*late);
  REQUIRE(bye);
  CHECK(bye->why == "1024 agents with this machine's key are here already");
  CHECK(port.registry->present_agents() == kMost);
  // Another machine is not affected.
  const auto other = port.client(port.known());
  port.hello(*other, "other");
  CHECK(port.expect<control::Welcome>(*other));
}

TEST_CASE("an agent that comes and goes under new names takes one place") {
  Port port;
  const CurveKeys keys = port.known();
  for (const int slots : {8, 3, 8, 1, 5}) {
    const auto socket = port.client(keys);
    port.hello(*socket, "of " + std::to_string(slots), slots);
    REQUIRE(port.expect<control::Welcome>(*socket));
    CHECK(port.registry->agent_of(port.registry->slots()[0]).slot_count ==
          slots);
    port.send(*socket, {encode(control::Bye{false, "leaves"})});
    REQUIRE(port.until([&] { return port.registry->present_agents() == 0; }));
    CHECK(port.registry->slots().size() == 8);
  }
}

TEST_CASE("of two agents of one name the second is refused or renamed") {
  Port port;
  const auto first = port.client(port.known());
  const auto second = port.client(port.known());
  port.hello(*first, "far");
  REQUIRE(port.expect<control::Welcome>(*first));
  port.hello(*second, "far");
  const auto bye = port.expect<control::Bye>(*second);
  REQUIRE(bye);
  CHECK(!bye->again);
  CHECK(bye->why == "an agent of the name 'far' is here already");
  CHECK(port.has_said("refused a second agent of the name 'far'"));
  // Another process of a machine that is called the same.
  control::Hello other;
  other.node = "far";
  other.agent = "far/2";
  port.send(*second, {encode(other)});
  REQUIRE(port.expect<control::Welcome>(*second));
  CHECK(port.registry->present_agents() == 2);
  CHECK(port.registry->agent_of(port.registry->slots()[1]).node == "far#2");
}

TEST_CASE("a connection that is made anew begins its leases anew") {
  Port port;
  const CurveKeys keys = port.known();
  auto agent = port.client(keys);
  port.hello(*agent, "far");
  port.send(*agent, {encode(control::SlotUp{0, 1})});
  REQUIRE(port.until([&] {
    return !port.registry->slots().empty() &&
           port.registry->slots()[0].state == SlotState::idle;
  }));
  port.registry->assign(0, control::Assign{.trial = 1, .attempt = 1});
  const auto session = port.expect<control::Welcome>(*agent)->session;
  agent = port.client(keys);
  port.hello(*agent, "far");
  const auto welcome = port.expect<control::Welcome>(*agent);
  REQUIRE(welcome);
  CHECK(welcome->session != session);
  CHECK(port.registry->slots()[0].state == SlotState::down);
  CHECK(port.has_said("node far is back"));
}

TEST_CASE("a worker that its agent has ended tells that the node is leaving") {
  Port port;
  const auto agent = port.client(port.known());
  join_with_lease(port, *agent);
  port.send(*agent, {encode(left_by_itself(0))});
  REQUIRE(port.until([&] { return !port.ended.empty(); }));
  CHECK(port.ended[0].outcome == control::Outcome::temporary);
  CHECK(port.ended[0].reason == Reason::node_lost);
  CHECK(port.ended[0].detail == "node far is leaving");
  for (const RegisteredSlot& slot : port.registry->slots()) {
    CHECK(slot.state == SlotState::down);
  }
  port.send(*agent, {encode(control::Bye{false, "stopped"})});
  CHECK(port.has_said("node far has left: stopped"));
}

TEST_CASE("a node whose worker is up again was not leaving") {
  Port port;
  const auto agent = port.client(port.known());
  join_with_lease(port, *agent);
  port.send(*agent, {encode(left_by_itself(0))});
  REQUIRE(port.until([&] { return !port.ended.empty(); }));
  port.send(*agent, {encode(control::SlotUp{0, 3})});
  CHECK(port.until([&] {
    const auto& slots = port.registry->slots();
    return std::all_of(slots.begin(), slots.end(), [](const RegisteredSlot& s) {
      return s.state == SlotState::idle;
    });
  }));
}

TEST_CASE("a worker that ends where its agent stays has crashed") {
  Port port;
  const auto agent = port.client(port.known());
  join_with_lease(port, *agent);
  port.send(*agent, {encode(left_by_itself(0)),
                     encode(control::SlotDown{0, false, "exit code 0"})});
  REQUIRE(port.until([&] { return !port.ended.empty(); }));
  CHECK(port.ended.size() == 1);
  CHECK(port.ended[0].outcome == control::Outcome::failed);
  CHECK(port.ended[0].reason == Reason::crashed);
  CHECK(port.registry->slots()[1].state == SlotState::idle);
}

TEST_CASE("nodes that leave a finished study are not reported") {
  Port port;
  const auto agent = port.client(port.known());
  port.hello(*agent, "far");
  REQUIRE(port.until([&] { return port.registry->present_agents() == 1; }));
  port.registry->stop(false);
  port.send(*agent, {encode(control::Bye{false, "stopped"})});
  CHECK(port.until([&] { return port.registry->present_agents() == 0; }));
  CHECK(port.said.find("has left") == std::string::npos);
}

TEST_CASE("an unknown key is refused, and reported once") {
  Port port;
  const CurveKeys keys = generate_curve_keys();
  // Clients of other tests may try a port that was theirs before.
  const std::string refusal =
      "127.0.0.1 was not let in: its key " + short_key(keys.public_key);
  for (int i = 0; i < 3; ++i) {
    const auto stranger = port.client(keys);
    CHECK(port.has_said(refusal));
  }
  for (int i = 0; i < 20; ++i) port.turn();
  const size_t first = port.said.find(refusal);
  CHECK(port.said.find(refusal, first + 1) == std::string::npos);
}

TEST_CASE("an agent that does not read is given up and the others go on") {
  Port port;
  const auto slow = port.client(port.known(), 10);
  const auto other = port.client(port.known());
  port.hello(*slow, "slow");  // its slot is the first
  REQUIRE(port.until([&] { return port.registry->present_agents() == 1; }));
  port.hello(*other, "other");
  REQUIRE(port.until([&] { return port.registry->present_agents() == 2; }));
  // It sends, so it is not silent; but does not read what is sent to it.
  const std::string text(100'000, 'x');
  CHECK(port.until([&] {
    slow->send(Frames{encode(control::Heartbeat{})});
    for (int i = 0; i < 500; ++i) {
      port.registry->kill(0, Reason::none, text);
      port.registry->acknowledge({0, 1, 1, i}, 0);
    }
    return port.said.find("node slow does not read") != std::string::npos;
  }));
  CHECK(port.registry->present_agents() == 1);
  port.send(*other, {encode(control::SlotUp{0, 1})});
  CHECK(port.until(
      [&] { return port.registry->slots()[1].state == SlotState::idle; }));
}

TEST_CASE("noise at the remote port does not disturb a study") {
  Port port;
  const CurveKeys keys = port.known();
  const auto agent = port.client(keys);
  port.hello(*agent, "far");
  REQUIRE(port.expect<control::Welcome>(*agent));
  const std::string endpoint = port.registry->remote_endpoint();
  const std::string greeting("\xff\0\0\0\0\0\0\0\1\x7f\3\0", 12);
  throw_at(endpoint, "GET / HTTP/1.1\r\n\r\n");
  throw_at(endpoint, "");
  throw_at(endpoint, std::string(100'000, '\0'));
  throw_at(endpoint, greeting + std::string("NULL") + std::string(48, '\0'));
  throw_at(endpoint, greeting + std::string("CURVE") + std::string(47, '\0') +
                         "\x04\xc8\x05HELLO" + std::string(194, 'x'));
  throw_at(endpoint, greeting + std::string("CURVE") + std::string(47, '\0') +
                         std::string("\x02\x7f\xff\xff\xff\xff\xff\xff\xff"));
  // Malformed messages of an authenticated agent are ignored as well.
  const auto odd = port.client(port.known());
  const std::string hello = encode(control::Hello{.node = "n", .agent = "n"});
  for (const std::string& bytes :
       {std::string(), std::string("\xc1"), std::string(3000, '\x91'),
        hello.substr(0, hello.size() / 2), hello + "x"}) {
    port.send(*odd, {bytes});
  }
  CHECK(port.has_said("ignored a message"));
  const auto large = port.client(port.known());
  port.send(*large, {std::string(wire::kMaxFrameBytes + 1, 'x')});
  port.send(*agent, {encode(control::SlotUp{0, 1})});
  CHECK(port.until(
      [&] { return port.registry->slots()[0].state == SlotState::idle; }));
  CHECK(port.registry->slots().size() == 1);
}

TEST_CASE("a study runs on an agent that joined with a token") {
  toy::RemoteStudy study("joined", 4, "learn");
  study.start_coordinator();
  Child& agent = study.start_agent("token1");
  CHECK(study.result() == 0);
  CHECK(study.notices("finished"));
  CHECK(study.said().find("node far has joined") != std::string::npos);
  const toy::Ending ending = toy::ending_of(agent);
  CHECK_MESSAGE(ending.code == 0, ending.text);
  CHECK(find_marked({"DTUNE_STUDY=" + study.id}).empty());
}

TEST_CASE("a study outlives its agent and goes on with the next") {
  toy::RemoteStudy study("outlives", 3, "wait_once");
  study.start_coordinator();
  Child& first = study.start_agent("token1", "one");
  REQUIRE(study.trains(2));
  kill(first.pid(), SIGKILL);
  study.start_agent("token2", "two", "other");
  CHECK(study.result() == 0);
  CHECK(study.said().find("node far has been silent") != std::string::npos);
}

TEST_CASE("an agent that leaves costs its trial no attempt") {
  const toy::Setting patient(toy::kPatient, "60");
  toy::RemoteStudy study("leaves", 1, "wait_once");
  study.start_coordinator();
  Child& first = study.start_agent("token1", "one");
  REQUIRE(study.trains(3));
  kill(first.pid(), SIGINT);
  CHECK(study.notices("node far has left: stopped"));
  study.start_agent("token2", "two", "other");
  CHECK(study.result() == 0);
  const auto store =
      open_sqlite_store(study.folder.path() / "study.db", StoreMode::read_only);
  const auto trials = store->load_trials();
  REQUIRE_FALSE(trials.empty());
  CHECK(trials[0].failures == 0);
  CHECK(trials[0].attempt == 2);
}

TEST_CASE("an agent finds its coordinator again after a kill -9") {
  toy::RemoteStudy study("again", 3, "wait_once");
  study.start_coordinator();
  Child& agent = study.start_agent("token1");
  REQUIRE(study.trains(3));
  kill(study.coordinator->pid(), SIGKILL);
  study.coordinator->wait(seconds(90));
  std::string text;
  CHECK(eventually([&] {
    agent.read_out(text);
    return text.find("the coordinator is gone; looking for it") !=
           std::string::npos;
  }));
  study.start_coordinator();
  CHECK(study.result() == 0);
  const toy::Ending ending = toy::ending_of(agent);
  CHECK_MESSAGE(ending.code == 0, ending.text);
}

TEST_CASE("an agent whose key was revoked reports why it cannot join") {
  toy::RemoteStudy study("taken", 1, "learn");
  study.start_coordinator();
  Child& first = study.start_agent("token1");
  REQUIRE(study.notices("node far has joined"));
  kill(first.pid(), SIGKILL);
  kill(study.coordinator->pid(), SIGKILL);
  study.coordinator->wait(seconds(90));
  std::filesystem::remove(study.folder.path() / "agents");
  study.start_coordinator();
  const toy::Ending ending = toy::ending_of(study.start_agent("none"));
  CHECK(ending.code == kExitConfig);
  CHECK(ending.text.find("does not know this machine's key") !=
        std::string::npos);
  CHECK(study.notices("was not let in"));
}
