// CurveZMQ (CurveCP's handshake over ZeroMQ, rfc.zeromq.org/spec/26): which
// peers communicate beyond this machine. A server is known by its public key; a
// client by its own, which a ZapServer admits or not. All keys are Curve25519,
// written in Z85: 40 characters without blanks, quotes or backslashes.
#pragma once

#include <string>
#include <string_view>

namespace dtune {

struct CurveKeys {
  std::string public_key;
  std::string secret_key;  // never on a wire, in argv or in the environment
};

// This ZeroMQ library was built with CURVE.
bool has_curve();

// A new pair, from the system's random numbers. Throws Error(config) where
// ZeroMQ was built without CURVE.
CurveKeys generate_curve_keys();

// Throws Error(config) where it is no key.
std::string public_key_of(const std::string& secret_key);

// 40 characters of Z85 that stand for 32 bytes.
bool is_curve_key(std::string_view text);

// 64 digits, for people to copy; `key_of_hex` throws Error(config) for others.
std::string hex_of_key(const std::string& key);
std::string key_of_hex(std::string_view hex);

// How much of a public key people are shown.
std::string short_key(std::string_view public_key);

// The server's end of a socket.
struct CurveServer {
  std::string secret_key;
  std::string domain;  // of ZapServer::add: which clients may connect
};

// The client's end.
struct CurveClient {
  std::string server_key;  // public; another server is refused
  CurveKeys keys;          // its own
};

}  // namespace dtune
