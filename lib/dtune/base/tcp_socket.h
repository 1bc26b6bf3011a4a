// TCP sockets of numeric addresses, of either family.
#pragma once

#include <memory>
#include <string>

#include <netdb.h>

#include "dtune/base/descriptor.h"

namespace dtune {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Empty where the address is not numeric. Asks no name server.
AddressList numeric_address(const std::string& address, int port);

// Does not block. None, with errno, where it cannot be made.
Descriptor new_tcp_socket(const addrinfo& address);

// One that listens there. None, with errno, where it cannot.
Descriptor listen_at(const addrinfo& address, int backlog);

// The port that a socket has here.
int port_of(int descriptor);

}  // namespace dtune
