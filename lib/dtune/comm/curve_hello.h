// The begin of a client's CURVE connection, as far as it can be read without
// its server's key: ZMTP's greeting and CurveZMQ's HELLO
// (rfc.zeromq.org/spec/23 and spec/26). HELLO has a box of zeros from the
// client's key of this connection to the server's lasting key: the holder of
// that server's secret key can open it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dtune::curve_hello {

inline constexpr size_t kGreetingBytes = 64;
inline constexpr size_t kBytes = kGreetingBytes + 2 + 200;  // with HELLO

// What a server with CURVE says first, whatever its key.
std::string_view server_greeting();

// These bytes are how a client with CURVE begins, as far as they go.
bool may_begin(std::string_view bytes);

// Of kBytes bytes: their client knows the server of this key (Z85). Costs one
// scalar multiplication, as in ZeroMQ itself.
bool is_for(std::string_view bytes, const std::string& secret_key);

}  // namespace dtune::curve_hello
