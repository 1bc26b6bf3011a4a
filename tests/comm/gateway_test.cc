#include "dtune/comm/gateway.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "eventually.h"
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/comm/batches.h"
#include "dtune/comm/curve_hello.h"
#include "dtune/comm/endpoint.h"
#include "dtune/comm/gateway_connection.h"
#include "dtune/comm/listener.h"
#include "dtune/comm/monitor.h"

using namespace dtune;  // NOLINT: a test

namespace {

using std::chrono::milliseconds;

GatewayOptions on_loopback() {
  GatewayOptions options;
  options.endpoint = "tcp://127.0.0.1:0";
  return options;
}

// A server with CURVE behind a gateway, and its clients.
struct Cluster {
  explicit Cluster(const GatewayOptions& options = on_loopback())
      : gateway(std::make_shared<Gateway>(options)) {
    allowed->add(mine.public_key);
    SocketOptions socket;
    socket.server =
        CurveServer{server.secret_key, context.zap().add(allowed, gateway)};
    router = std::make_unique<Socket>(context, Socket::Kind::router, socket);
    router->bind(gateway->add_server(server.secret_key));
    gateway->open();
  }

  std::unique_ptr<Socket> client() { return client(server.public_key); }

  std::unique_ptr<Socket> client(const std::string& server_key) {
    return client_at(gateway->endpoint(), server_key);
  }

  std::unique_ptr<Socket> client_at(const std::string& endpoint,
                                    const std::string& server_key) {
    SocketOptions options;
    options.client = CurveClient{server_key, mine};
    auto socket =
        std::make_unique<Socket>(context, Socket::Kind::dealer, options);
    socket->connect(endpoint);
    return socket;
  }

  std::optional<Frames> receive() {
    auto frames = router->receive();
    if (frames) gateway->heard(router->source(), router->sender());
    return frames;
  }

  std::string said() {
    for (const std::string& notice : gateway->take_notices()) all += notice;
    return all;
  }

  SocketContext context;
  const CurveKeys server = generate_curve_keys();
  const CurveKeys mine = generate_curve_keys();
  std::shared_ptr<AllowList> allowed = std::make_shared<AllowList>();
  std::shared_ptr<Gateway> gateway;
  std::unique_ptr<Socket> router;
  std::string all;
};

bool brings(Socket& socket, Cluster& cluster, const Frames& frames) {
  bool sent = false;
  std::optional<Frames> got;
  return eventually([&] {
           sent = sent || socket.send(frames);
           got = cluster.receive();
           return got.has_value();
         }) &&
         got->back() == frames.back();
}

// A TCP connection from an address of loopback that says nothing by itself.
class StrangeClient {
 public:
  explicit StrangeClient(const Gateway& gateway, const char* from = "127.0.0.1")
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    inet_pton(AF_INET, from, &own.sin_addr);
    REQUIRE(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&own),
                   sizeof own) == 0);
    sockaddr_in to = own;
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    const auto port = parse_tcp(gateway.endpoint())->port;
    to.sin_port = htons(static_cast<uint16_t>(port));
    REQUIRE(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&to),
                      sizeof to) == 0);
  }

  // What could be sent at once of it.
  size_t say(const std::string& bytes) const {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(),
                                MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent > 0 ? static_cast<size_t>(sent) : 0;
  }

  bool is_closed() {
    std::string bytes(4096, '\0');
    ssize_t got;
    do {
      got = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got > 0) heard_ += static_cast<size_t>(got);
    } while (got > 0);
    return got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
  }
  size_t heard() const { return heard_; }  // bytes

 private:
  Descriptor socket_;
  size_t heard_ = 0;
};

// A client's greeting without keys, and with CURVE (rfc.zeromq.org/spec/23).
std::string greeting(const std::string& mechanism) {
  std::string text("\xff\0\0\0\0\0\0\0\1\x7f\3\1", 12);
  text += mechanism;
  text.resize(curve_hello::kGreetingBytes, '\0');
  return text;
}

// What a client says first, up to its box, which no server can open here.
std::string begin_of_hello() {
  return greeting("CURVE") + std::string("\x04\xc8\x05HELLO\x01\0", 10);
}

std::string forged_hello() {
  std::string text = begin_of_hello();
  text.resize(curve_hello::kBytes, 'x');
  return text;
}

}  // namespace

TEST_CASE("much more than the window passes, if it is whole messages") {
  GatewayOptions options = on_loopback();
  options.window = options.unknown_bytes = size_t{128} << 10;
  Cluster cluster(options);
  const auto client = cluster.client();
  constexpr int kMessages = 200;
  const std::string message(50'000, 'x');
  int sent = 0;
  int received = 0;
  CHECK(eventually([&] {
    if (sent < kMessages && client->send(Frames{message})) ++sent;
    while (const auto frames = cluster.receive()) {
      received += frames->back() == message ? 1 : 0;
      CHECK(cluster.router->send(Frames{frames->front(), message}));
    }
    return received == kMessages;
  }));
  int answers = 0;
  CHECK(eventually([&] {
    while (client->receive()) ++answers;
    return answers == kMessages;
  }));
}

TEST_CASE(
    "connections that send nothing are bounded, and keep no other client out") {
  GatewayOptions options = on_loopback();
  options.most_unknown = 8;
  Cluster cluster(options);
  StrangeClient patient(*cluster.gateway, "127.0.0.2");
  std::vector<std::unique_ptr<StrangeClient>> strangers;
  for (int i = 0; i < 100; ++i) {
    strangers.push_back(std::make_unique<StrangeClient>(*cluster.gateway));
  }
  CHECK(eventually([&] { return strangers[0]->is_closed(); }));
  CHECK(cluster.gateway->load().unknown <= 8);
  CHECK(!patient.is_closed());  // of an address that has few
  const auto client = cluster.client();
  CHECK(brings(*client, cluster, {"hello"}));
  CHECK(cluster.gateway->load().known == 1);
  CHECK(cluster.said().find("127.0.0.1 has opened 8 connections without a key "
                            "that is allowed; its oldest ones are closed") !=
        std::string::npos);
}

TEST_CASE("one key has a bounded number of connections") {
  GatewayOptions options = on_loopback();
  options.most_of_key = 3;
  Cluster cluster(options);
  std::vector<std::unique_ptr<Socket>> sockets;
  for (int i = 0; i < 3; ++i) {
    sockets.push_back(cluster.client());
    REQUIRE(brings(*sockets.back(), cluster, {"hello"}));
  }
  const auto more = cluster.client();
  REQUIRE(brings(*more, cluster, {"hello"}));
  CHECK(eventually([&] {
    return cluster.said().find("has 3 connections with the key") !=
           std::string::npos;
  }));
  CHECK(cluster.gateway->load().known == 3);
  sockets.pop_back();  // what leaves makes room
  CHECK(eventually([&] {
    more->send(Frames{"again"});
    while (cluster.receive()) {
    }
    return cluster.gateway->load().known == 3;
  }));
}

TEST_CASE("one port leads to the server whose key the client knows") {
  Cluster cluster;
  const CurveKeys other = generate_curve_keys();
  SocketOptions socket;
  socket.server =
      CurveServer{other.secret_key,
                  cluster.context.zap().add(cluster.allowed, cluster.gateway)};
  Socket files(cluster.context, Socket::Kind::router, socket);
  files.bind(cluster.gateway->add_server(other.secret_key));
  const auto first = cluster.client();
  const auto second = cluster.client(other.public_key);
  CHECK(brings(*first, cluster, {"control"}));
  bool sent = false;
  std::optional<Frames> got;
  CHECK(eventually([&] {
    sent = sent || second->send(Frames{"files"});
    got = files.receive();
    return got.has_value();
  }));
  REQUIRE(got);
  CHECK(got->back() == "files");
  CHECK(files.send(Frames{got->front(), "back"}));
  std::optional<Frames> back;
  CHECK(eventually([&] { return (back = second->receive()).has_value(); }));
  CHECK(!cluster.receive());
}

TEST_CASE("a client without any server's key is closed at its first message") {
  Cluster cluster;
  const auto wrong = cluster.client(generate_curve_keys().public_key);
  ConnectionMonitor monitor(cluster.context, *wrong);
  CHECK(eventually([&] {
    const auto events = monitor.take();
    return std::ranges::count(events, ConnectionEvent::mismatched) > 0;
  }));
  StrangeClient plain(*cluster.gateway);
  plain.say(greeting("NULL"));
  CHECK(eventually([&] { return plain.is_closed(); }));
  CHECK(plain.heard() == curve_hello::kGreetingBytes);
  StrangeClient forger(*cluster.gateway);
  const std::string begin = begin_of_hello();
  REQUIRE(curve_hello::may_begin(begin));
  REQUIRE(forger.say(begin) == begin.size());
  CHECK(eventually([&] {
    return !forger.is_closed() && forger.heard() == curve_hello::kGreetingBytes;
  }));
  forger.say(forged_hello().substr(begin.size()));
  CHECK(eventually([&] { return forger.is_closed(); }));
  CHECK(cluster.gateway->load().known == 0);
}

TEST_CASE("a flood of first messages delays neither peers nor newcomers") {
  GatewayOptions options = on_loopback();
  options.hellos = {.per_second = 2, .at_once = 5};
  Cluster cluster(options);
  const auto known = cluster.client();
  REQUIRE(brings(*known, cluster, {"hello"}));
  std::vector<std::unique_ptr<StrangeClient>> flood;
  for (int i = 0; i < 200; ++i) {
    flood.push_back(std::make_unique<StrangeClient>(*cluster.gateway));
    REQUIRE(flood.back()->say(forged_hello()) == curve_hello::kBytes);
  }
  CHECK(eventually([&] { return flood.front()->is_closed(); }));
  // A network of its own has its turn before the rest of the flood.
  const int port = parse_tcp(cluster.gateway->endpoint())->port;
  const auto newcomer =
      cluster.client_at(fmt::format("tcp://127.0.0.2:0;127.0.0.1:{}", port),
                        cluster.server.public_key);
  CHECK(brings(*newcomer, cluster, {"from another network"}));
  CHECK(brings(*known, cluster, {"still here"}));
  CHECK(!flood.back()->is_closed());
  CHECK(cluster.gateway->load().hellos < 200);
}

TEST_CASE("more machines may come at once than unknown connections may wait") {
  Cluster cluster;
  constexpr size_t kMachines = 300;
  std::vector<std::unique_ptr<Socket>> machines;
  for (size_t i = 0; i < kMachines; ++i) machines.push_back(cluster.client());
  std::set<std::string> heard;
  CHECK(eventually([&] {
    for (size_t i = 0; i < kMachines; ++i) {
      const std::string name = std::to_string(i);
      if (!heard.contains(name)) machines[i]->send(Frames{name});
    }
    while (const auto got = cluster.receive()) heard.insert(got->back());
    return heard.size() == kMachines;
  }));
}

TEST_CASE("connections wait until the servers of a gateway are there") {
  Gateway gateway(on_loopback());
  StrangeClient early(gateway);
  early.say(greeting("NULL"));
  CHECK(!early.is_closed());
  CHECK(gateway.load().unknown == 0);
  gateway.open();
  CHECK(eventually([&] { return early.is_closed(); }));
}

TEST_CASE("a message whose end does not come takes bounded memory") {
  GatewayOptions options = on_loopback();
  options.unknown_bytes = size_t{256} << 10;
  options.unknown_pool = 0;
  options.stall = milliseconds(2500);
  Cluster cluster(options);
  const auto client = cluster.client();
  bool sent = false;
  uint64_t most = 0;
  CHECK(eventually([&] {
    sent = sent || client->send(Frames{std::string(size_t{3} << 20, 'x')});
    most = std::max(most, cluster.gateway->load().bytes);
    return cluster.said().find("127.0.0.1 has sent") == 0;
  }));
  CHECK(most >= options.unknown_bytes);
  CHECK(most <= options.unknown_bytes + (size_t{64} << 10));
  CHECK(!cluster.receive());
}

TEST_CASE("messages that wait are sent in parts that a gateway has room for") {
  Cluster cluster;
  const auto client = cluster.client();
  constexpr size_t kLarge = size_t{2} << 20;
  Frames waiting(100, std::string(size_t{300} << 10, 'x'));  // 30 MB together
  waiting[0].resize(kLarge);  // also as the first message of a connection
  waiting.resize(100'200, "small");
  size_t received = 0;
  size_t bytes = 0;
  CHECK(eventually([&] {
    send_batches(waiting, "",
                 [&](const Frames& batch) { return client->send(batch); });
    while (const auto frames = cluster.receive()) {
      received += frames->size() - 1;
      for (size_t i = 1; i < frames->size(); ++i) bytes += (*frames)[i].size();
    }
    return waiting.empty() && received == 100'200;
  }));
  CHECK(bytes == kLarge + 99 * (size_t{300} << 10) + 100'100 * 5);
}

TEST_CASE("a connection that sends nothing, and one that is lost, are closed") {
  GatewayOptions options = on_loopback();
  options.silence = milliseconds(300);
  Gateway gateway(options);
  gateway.open();
  StrangeClient silent(gateway);
  CHECK(eventually([&] { return silent.is_closed(); }));
  StrangeClient eager(gateway);
  eager.say("GET / HTTP/1.1\r\n\r\n");
  CHECK(eventually([&] { return eager.is_closed(); }));
  CHECK(gateway.load().unknown == 0);
}

TEST_CASE("a gateway listens in the range of ports that it is given") {
  const Gateway first(on_loopback());
  GatewayOptions options = on_loopback();
  const int taken = parse_tcp(first.endpoint())->port;
  options.ports = {taken, taken + 20};
  const Gateway second(options);
  const int port = parse_tcp(second.endpoint())->port;
  CHECK(port > taken);
  CHECK(port <= taken + 20);
}

TEST_CASE("a gateway's port that is taken is named") {
  const Gateway first(on_loopback());
  GatewayOptions same = on_loopback();
  same.endpoint = first.endpoint();
  try {
    const Gateway second(same);
    FAIL("bound twice");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::temporary);
    CHECK(std::string(e.what()).find("already in use by process") !=
          std::string::npos);
  }
}
