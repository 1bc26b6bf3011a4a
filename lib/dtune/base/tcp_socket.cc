#include "dtune/base/tcp_socket.h"

#include <cerrno>

#include <netinet/in.h>
#include <sys/socket.h>

namespace dtune {

AddressList numeric_address(const std::string& address, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints,
                  &list) != 0) {
    list = nullptr;
  }
  return {list, &freeaddrinfo};
}

Descriptor new_tcp_socket(const addrinfo& address) {
  return Descriptor(
      socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

Descriptor listen_at(const addrinfo& address, int backlog) {
  Descriptor one = new_tcp_socket(address);
  const int yes = 1;
  const bool listens =
      one.get() >= 0 &&
      setsockopt(one.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
      bind(one.get(), address.ai_addr, address.ai_addrlen) == 0 &&
      listen(one.get(), backlog) == 0;
  if (!listens) {
    const int code = errno;
    one.reset();
    errno = code;
  }
  return one;
}

int port_of(int descriptor) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &size);
  // The port is at the same place in both families.
  return ntohs(reinterpret_cast<sockaddr_in*>(&own)->sin_port);
}

}  // namespace dtune
