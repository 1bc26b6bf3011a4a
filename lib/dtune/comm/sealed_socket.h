// Encryption of what two ranks say. Gloo has none that Debian's build offers:
// it gets a local connection, and a thread of its own passes the bytes on
// between that and the network, in frames:
//
//   length of the rest, 4 bytes, lowest first
//   up to 32 KiB, encrypted with ChaCha20-Poly1305 (RFC 8439)
//
// The nonce counts the frames of a direction, which has a key of its own, and
// the length is authenticated, too: what is changed, repeated, left out or put
// in another order ends the connection.
#pragma once

#include <array>

#include "dtune/base/descriptor.h"

namespace dtune {

using SealKey = std::array<unsigned char, 32>;

// Both for one connection alone.
struct SealKeys {
  SealKey sends;
  SealKey receives;
};

// Takes a connection that does not block, and returns the local one in its
// place. Where either is closed, or a frame is not what the other end sent, the
// other one is closed as well. Throws Error(comm).
Descriptor seal(Descriptor network, const SealKeys& keys);

}  // namespace dtune
