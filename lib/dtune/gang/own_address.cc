#include "dtune/gang/own_address.h"

#include <array>
#include <cerrno>

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dtune/base/descriptor.h"
#include "dtune/base/error.h"
#include "dtune/comm/endpoint.h"

namespace dtune::gang {
namespace {

[[noreturn]] void fail(const std::string& host) {
  throw Error(ErrorKind::comm, fmt::format("{}: no route from here: {}", host,
                                           errno_text(errno)));
}

}  // namespace

// Connecting a datagram socket makes the kernel choose the route.
std::string own_address(const std::string& endpoint) {
  const auto tcp = parse_tcp(endpoint);
  if (!tcp) return "127.0.0.1";
  const std::string numeric = resolve_host(tcp->host);
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  if (getaddrinfo(numeric.c_str(), "9", &hints, &list) != 0) fail(numeric);
  const Descriptor fd(socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int rc =
      fd.get() < 0 ? -1 : connect(fd.get(), list->ai_addr, list->ai_addrlen);
  freeaddrinfo(list);
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  auto* address = reinterpret_cast<sockaddr*>(&own);
  if (rc != 0 || getsockname(fd.get(), address, &size) != 0) fail(numeric);
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(address, size, text.data(), text.size(), nullptr, 0,
                  NI_NUMERICHOST) != 0) {
    fail(numeric);
  }
  return text.data();
}

}  // namespace dtune::gang
