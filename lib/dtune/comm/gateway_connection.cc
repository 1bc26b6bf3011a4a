#include "dtune/comm/gateway_connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/base/tcp_socket.h"
#include "dtune/comm/endpoint.h"

namespace dtune::gateway {
namespace {

constexpr int kBacklog = 512;

// -1 and errno where it cannot.
int try_to_listen(const TcpEndpoint& tcp) {
  const AddressList list = numeric_address(tcp.host, tcp.port);
  if (list != nullptr) return listen_at(*list, kBacklog).release();
  errno = EADDRNOTAVAIL;
  return -1;
}

}  // namespace

size_t Flow::read(int from, size_t most) {
  const size_t before = bytes_.size();
  bytes_.resize(before + most);
  ssize_t got;
  do {
    got = ::recv(from, bytes_.data() + before, most, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  const bool later = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  if (most > 0 && got <= 0 && !later) ended_ = true;
  const size_t count = got > 0 ? static_cast<size_t>(got) : 0;
  bytes_.resize(before + count);
  const size_t skipped = std::min(skip_, count);
  bytes_.erase(before, skipped);
  skip_ -= skipped;
  return count;
}

size_t Flow::write(int to) {
  if (empty()) return 0;
  ssize_t put;
  do {
    put = ::send(to, bytes_.data() + done_, bytes_.size() - done_,
                 MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (put < 0 && errno == EINTR);
  if (put < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    done_ = bytes_.size();  // it reads no more
    ended_ = true;
  } else {
    done_ += static_cast<size_t>(put);
  }
  if (empty()) {
    bytes_.clear();
    done_ = 0;
  }
  return put > 0 ? static_cast<size_t>(put) : 0;
}

int listening_socket(const std::string& endpoint, const PortRange& ports) {
  TcpEndpoint tcp = parse_tcp(endpoint).value();
  const bool any = tcp.port == 0;
  const PortRange range = any ? ports : PortRange{tcp.port, tcp.port};
  int code = 0;
  for (tcp.port = range.first; tcp.port <= range.last; ++tcp.port) {
    const int one = try_to_listen(tcp);
    if (one >= 0) return one;
    code = errno;
    if (code != EADDRINUSE) break;
  }
  if (any && code == EADDRINUSE) {
    throw Error(ErrorKind::temporary,
                fmt::format("{}: all ports of {}-{} are in use (give --ports "
                            "a wider range)",
                            tcp.host, range.first, range.last));
  }
  cannot_listen(endpoint, code);
}

void notice_the_dead(int descriptor) {
  const auto set = [descriptor](int level, int option, int value) {
    setsockopt(descriptor, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
}

std::string connect_local(const std::string& path, Descriptor& out) {
  sockaddr_un address{};
  if (path.size() >= sizeof address.sun_path) return "";
  const int one =
      socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (one < 0) return "";
  out.reset(one);
  // Without a name the kernel chooses one that no other socket has (unix(7)).
  address.sun_family = AF_UNIX;
  if (bind(one, reinterpret_cast<sockaddr*>(&address), sizeof(sa_family_t)) !=
      0) {
    return "";
  }
  sockaddr_un own{};
  socklen_t size = sizeof own;
  if (getsockname(one, reinterpret_cast<sockaddr*>(&own), &size) != 0) {
    return "";
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  if (connect(one, reinterpret_cast<sockaddr*>(&address), sizeof address) !=
      0) {
    return "";
  }
  return {own.sun_path, size - offsetof(sockaddr_un, sun_path)};
}

std::string peer_name(int descriptor) {
  sockaddr_un peer{};
  socklen_t size = sizeof peer;
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) != 0 ||
      peer.sun_family != AF_UNIX || size <= offsetof(sockaddr_un, sun_path)) {
    return "";
  }
  return {peer.sun_path, size - offsetof(sockaddr_un, sun_path)};
}

std::string peer_address(int descriptor) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  auto* address = reinterpret_cast<sockaddr*>(&peer);
  std::array<char, NI_MAXHOST> text{};
  if (getpeername(descriptor, address, &size) != 0 ||
      getnameinfo(address, size, text.data(), text.size(), nullptr, 0,
                  NI_NUMERICHOST) != 0) {
    return "?";
  }
  return text.data();
}

std::string network_of(const std::string& address) {
  in6_addr six{};
  const std::string host = address.substr(0, address.find('%'));
  if (inet_pton(AF_INET6, host.c_str(), &six) != 1 ||
      IN6_IS_ADDR_V4MAPPED(&six)) {
    return address;
  }
  constexpr size_t kPrefix = 8;
  std::array<char, INET6_ADDRSTRLEN> text{};
  std::fill(std::begin(six.s6_addr) + kPrefix, std::end(six.s6_addr),
            uint8_t{0});
  inet_ntop(AF_INET6, &six, text.data(), text.size());
  return std::string(text.data()) + "/64";
}

}  // namespace dtune::gateway
