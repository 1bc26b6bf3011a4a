#include "dtune/cluster/coordinator_link.h"

#include <memory>
#include <string>

#include "eventually.h"
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/comm/endpoint.h"
#include "dtune/comm/zap.h"

using namespace dtune;  // NOLINT: a test

namespace {

// A coordinator's socket that knows one agent's key.
struct Server {
  explicit Server(const CurveKeys& own, const CurveKeys& agent,
                  const std::string& endpoint) {
    allowed->add(agent.public_key);
    SocketOptions options;
    options.server = CurveServer{own.secret_key, context.zap().add(allowed)};
    socket = std::make_unique<Socket>(context, Socket::Kind::router, options);
    socket->bind(endpoint);
  }

  SocketContext context;
  std::shared_ptr<AllowList> allowed = std::make_shared<AllowList>();
  std::unique_ptr<Socket> socket;
};

// Accepts connections and closes them at once, as a tunnel without an end.
class Tunnel {
 public:
  explicit Tunnel(int port)
      : socket_(
            ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    const int on = 1;
    setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
    REQUIRE(eventually([&] {
      return ::bind(socket_, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0;
    }));
    REQUIRE(::listen(socket_, 8) == 0);
  }
  ~Tunnel() { ::close(socket_); }
  Tunnel(const Tunnel&) = delete;
  Tunnel& operator=(const Tunnel&) = delete;

  void turn() {
    const int peer = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (peer < 0) return;
    ::close(peer);
    ++closed;
  }
  int closed = 0;

 private:
  int socket_;
};

}  // namespace

TEST_CASE("an agent waits for its coordinator behind a tunnel without an end") {
  const CurveKeys own = generate_curve_keys();
  const CurveKeys agent = generate_curve_keys();
  auto server = std::make_unique<Server>(own, agent, "tcp://127.0.0.1:0");
  const std::string endpoint = server->socket->bound_endpoint();
  CoordinatorLink link(endpoint, CurveClient{own.public_key, agent});
  bool sent = false;
  CHECK(eventually([&] {
    link.check();
    sent = sent || link.send(Frames{"hello"});
    return server->socket->receive().has_value();
  }));
  link.check();
  server.reset();
  {
    Tunnel tunnel(parse_tcp(endpoint)->port);
    link.reconnect();
    CHECK(eventually([&] {
      tunnel.turn();
      link.check();
      return tunnel.closed > 15;
    }));
    CHECK_FALSE(link.trouble().empty());
  }
  REQUIRE(eventually([&] {
    try {
      server = std::make_unique<Server>(own, agent, endpoint);
    } catch (const Error&) {
    }
    return server != nullptr;
  }));
  CHECK(eventually([&] {
    link.check();
    return link.trouble().empty();
  }));
}
