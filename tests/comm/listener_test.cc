#include "dtune/comm/listener.h"

#include <chrono>
#include <functional>

#include <doctest/doctest.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/comm/endpoint.h"

using namespace dtune;  // NOLINT: a test

namespace {

using std::chrono::milliseconds;

constexpr Duration kListenerPatience = std::chrono::seconds(90);
// How long to look for what must not come.
constexpr Duration kGlance = milliseconds(300);

// A listener on loopback with CURVE, and its peers.
struct Secure {
  Secure() { options.security = ListenSecurity{server, allowed}; }

  Listener listen() {
    options.remote = "tcp://127.0.0.1:0";
    return Listener(context, options);
  }

  Socket client(const CurveKeys& keys, const std::string& server_key) {
    SocketOptions socket;
    socket.client = CurveClient{server_key, keys};
    return Socket(context, Socket::Kind::dealer, socket);
  }

  SocketContext context;
  CurveKeys server = generate_curve_keys();
  CurveKeys mine = generate_curve_keys();
  std::shared_ptr<AllowList> allowed = std::make_shared<AllowList>();
  ListenOptions options;
};

std::optional<Frames> receive(Listener& listener, Duration patience) {
  const MonoTime end = system_clock().now() + patience;
  while (system_clock().now() < end) {
    if (auto frames = listener.receive()) return frames;
    PollSet polls;
    listener.add_to(polls);
    polls.wait(milliseconds(20));
  }
  return std::nullopt;
}

std::optional<Frames> receive(Socket& socket, Duration patience) {
  PollSet polls;
  polls.add(socket);
  polls.wait(patience);
  return socket.receive();
}

// A client queues nothing before it is connected.
bool send(Socket& socket, const Frames& frames,
          Duration patience = kListenerPatience) {
  const MonoTime end = system_clock().now() + patience;
  while (system_clock().now() < end) {
    if (socket.send(frames)) return true;
    usleep(5'000);
  }
  return false;
}

bool comes_true(const std::function<bool()>& condition) {
  const MonoTime end = system_clock().now() + kListenerPatience;
  while (system_clock().now() < end) {
    if (condition()) return true;
    usleep(5'000);
  }
  return false;
}

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::config);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a client whose key is allowed is received by name and answered") {
  Secure secure;
  secure.allowed->add(secure.mine.public_key);
  Listener listener = secure.listen();
  Socket client = secure.client(secure.mine, secure.server.public_key);
  client.connect(listener.remote_endpoint());
  REQUIRE(send(client, {"hello"}));
  auto frames = receive(listener, kListenerPatience);
  REQUIRE(frames);
  CHECK(frames->back() == "hello");
  CHECK(listener.sender() == secure.mine.public_key);
  CHECK(!Listener::is_local(frames->front()));
  CHECK(listener.send({frames->front(), "welcome"}));
  CHECK(receive(client, kListenerPatience) == Frames{"welcome"});
}

TEST_CASE("a peer that sends without end does not keep a server for ever") {
  SocketContext context;
  ListenOptions options;
  options.local = "tcp://127.0.0.1:0";
  Listener listener(context, options);
  Socket flooder(context, Socket::Kind::dealer);
  flooder.connect(listener.local_endpoint());
  int64_t sent = 0;
  int64_t heard = 0;
  const auto flood = [&](int messages) {
    for (int i = 0; i < messages; ++i) {
      if (flooder.send(Frames{std::to_string(sent)})) ++sent;
    }
  };
  flood(500);
  REQUIRE(receive(listener, kListenerPatience));
  ++heard;
  // A queue that is empty for a moment, since the sender's thread had no turn,
  // ends it as well: then again.
  CHECK(comes_true([&] {
    return !listener.receive_all([&](const Frames& frames) {
      CHECK(frames.back() == std::to_string(heard));
      ++heard;
      usleep(1'000);
      flood(2);
    });
  }));
  CHECK(comes_true([&] {
    listener.receive_all([&](const Frames&) { ++heard; });
    return heard == sent;
  }));
  CHECK(listener.receive_all([](const Frames&) {}));
}

TEST_CASE("a client whose key is unknown does not get past the handshake") {
  Secure secure;
  Listener listener = secure.listen();
  Socket client = secure.client(secure.mine, secure.server.public_key);
  client.connect(listener.remote_endpoint());
  std::vector<Refusal> refusals;
  CHECK(comes_true([&] {
    refusals = secure.allowed->take_refusals();
    return !refusals.empty();
  }));
  REQUIRE(!refusals.empty());
  CHECK(refusals[0].public_key == secure.mine.public_key);
  CHECK(refusals[0].address == "127.0.0.1");
  CHECK(!send(client, {"hello"}, kGlance));
  CHECK(!receive(listener, kGlance));
}

TEST_CASE("clients with another server's key or with no keys are ignored") {
  Secure secure;
  secure.allowed->add(secure.mine.public_key);
  Listener listener = secure.listen();
  Socket wrong = secure.client(secure.mine, generate_curve_keys().public_key);
  Socket plain(secure.context, Socket::Kind::dealer);
  wrong.connect(listener.remote_endpoint());
  plain.connect(listener.remote_endpoint());
  CHECK(!send(wrong, {"hello"}, kGlance));
  plain.send(Frames{"hello"});
  CHECK(!receive(listener, kGlance));
}

TEST_CASE("messages of a key that is taken away are dropped") {
  Secure secure;
  secure.allowed->add(secure.mine.public_key);
  Listener listener = secure.listen();
  Socket client = secure.client(secure.mine, secure.server.public_key);
  client.connect(listener.remote_endpoint());
  REQUIRE(send(client, {"first"}));
  REQUIRE(receive(listener, kListenerPatience));
  secure.allowed->remove(secure.mine.public_key);
  REQUIRE(send(client, {"second"}));
  CHECK(!receive(listener, kGlance));
}

TEST_CASE("a list of keys that is replaced allows the new ones alone") {
  AllowList list;
  const std::string one = generate_curve_keys().public_key;
  const std::string two = generate_curve_keys().public_key;
  list.add(one);
  list.replace({two});
  CHECK(list.keys() == std::vector<std::string>{two});
  CHECK_THROWS_AS(list.replace({one, "no key"}), Error);
  CHECK(list.contains(two));
  CHECK(!list.contains(one));
}

TEST_CASE("a key that is allowed later may connect then") {
  Secure secure;
  Listener listener = secure.listen();
  {
    Socket early = secure.client(secure.mine, secure.server.public_key);
    early.connect(listener.remote_endpoint());
    CHECK(!send(early, {"early"}, kGlance));
  }
  secure.allowed->add(secure.mine.public_key);
  Socket client = secure.client(secure.mine, secure.server.public_key);
  client.connect(listener.remote_endpoint());
  REQUIRE(send(client, {"now"}));
  const auto frames = receive(listener, kListenerPatience);
  REQUIRE(frames);
  CHECK(frames->back() == "now");
}

TEST_CASE("two listeners of one process may share a list or have their own") {
  Secure secure;
  secure.allowed->add(secure.mine.public_key);
  Listener one = secure.listen();
  Listener two = secure.listen();
  secure.options.security->allowed = std::make_shared<AllowList>();
  Listener other = secure.listen();
  for (Listener* listener : {&one, &two, &other}) {
    Socket client = secure.client(secure.mine, secure.server.public_key);
    client.connect(listener->remote_endpoint());
    const bool heard = listener != &other;
    CHECK(send(client, {"x"}, heard ? kListenerPatience : kGlance) == heard);
    CHECK(receive(*listener, heard ? kListenerPatience : kGlance).has_value() ==
          heard);
  }
}

TEST_CASE("local and remote peers are distinguished and both answered") {
  const SocketDirectory folder;
  Secure secure;
  secure.allowed->add(secure.mine.public_key);
  secure.options.local = folder.endpoint("s");
  Listener listener = secure.listen();
  Socket near(secure.context, Socket::Kind::dealer);
  Socket far = secure.client(secure.mine, secure.server.public_key);
  near.connect(listener.local_endpoint());
  far.connect(listener.remote_endpoint());
  for (Socket* socket : {&near, &far}) {
    REQUIRE(send(*socket, {"hello"}));
    const auto frames = receive(listener, kListenerPatience);
    REQUIRE(frames);
    CHECK(Listener::is_local(frames->front()) == (socket == &near));
    CHECK(listener.sender() == (socket == &near ? "" : secure.mine.public_key));
    CHECK(listener.send({frames->front(), "back"}));
    CHECK(receive(*socket, kListenerPatience) == Frames{"back"});
  }
}

TEST_CASE(
    "a listener that would admit unknown clients is refused with a remedy") {
  const SocketContext context;
  const auto refused = [&context](const ListenOptions& options) {
    return error_of([&] { const Listener listener(context, options); });
  };
  CHECK(refused({.remote = "tcp://192.0.2.1:5555"}) ==
        "tcp://192.0.2.1:5555: needs keys, because any machine could join "
        "otherwise (make them with: dtune keygen)");
  CHECK(refused({.remote = "tcp://*:5555"}).find("listens on every network") !=
        std::string::npos);
  CHECK(refused({.remote = "tcp://0.0.0.0:5555"})
            .find("listens on every network") != std::string::npos);
  CHECK(refused({.local = "tcp://192.0.2.1:5555"})
            .find("is not an address of this machine alone") !=
        std::string::npos);
  CHECK(
      refused({.remote = "tcp://10.0.0.1"}).find("is not an address (write") !=
      std::string::npos);
}

TEST_CASE("an address of another machine cannot be listened on") {
  Secure secure;
  secure.options.remote = "tcp://192.0.2.1:0";
  CHECK(error_of([&] {
          Listener(secure.context, secure.options);
        }).find("is not an address of this machine") != std::string::npos);
}

TEST_CASE("a port that is taken is named with its holder") {
  const SocketContext context;
  Listener first(context, {.remote = "tcp://127.0.0.1:0"});
  try {
    Listener second(context, {.remote = first.remote_endpoint()});
    FAIL("bound twice");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::temporary);
    const std::string text = e.what();
    CHECK(text.find(first.remote_endpoint()) == 0);
    CHECK(text.find("already in use by process " + std::to_string(getpid())) !=
          std::string::npos);
  }
}

TEST_CASE("addresses are read as they are written") {
  CHECK(!parse_tcp("ipc:///tmp/x"));
  CHECK(parse_tcp("tcp://10.0.0.1:5555")->port == 5555);
  CHECK(parse_tcp("tcp://eth0:*")->port == 0);
  CHECK(parse_tcp("tcp://[::1]:80")->host == "::1");
  CHECK(parse_tcp("tcp://[::1]:80")->text() == "tcp://[::1]:80");
  for (const char* wrong :
       {"tcp://", "tcp://:1", "tcp://a:", "tcp://a:x", "tcp://a:70000",
        "tcp://a:-1", "tcp://::1:80", "tcp://[::1:80", "tcp://[]:80"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_tcp(wrong), Error);
  }
  CHECK(is_loopback("127.0.1.1"));
  CHECK(is_loopback("::1"));
  CHECK(!is_loopback("10.0.0.1"));
  CHECK(!is_loopback("localhost"));
  CHECK(is_local_endpoint("tcp://localhost:1"));
  CHECK(resolve_host("lo") == "127.0.0.1");
}
