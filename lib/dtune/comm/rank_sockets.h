// TCP connections between the ranks of a group, of which each end has proved to
// the other that it met it in the store. An unknown process that connects
// learns and breaks nothing: a rank listens at one port while ranks meet, waits
// for many at once, and closes connections that cannot prove their identity.
//
// Each rank puts its port and 32 random bytes into the store, which is as
// private as the control plane. Of two ranks the higher one connects:
//
//   lower                                 higher
//     |<------------ TCP connect -----------|
//     |--- challenge a: 32 random bytes --->|
//     |<-- rank, mesh, challenge b, --------|
//     |    HMAC(key, "h" a b rank mesh)     |
//     |--- HMAC(key, "l" a b rank mesh) --->|
//
// The key is BLAKE2b over the group's name and both ranks' random bytes; HMAC
// is HMAC-SHA-512-256 (both libsodium's). After that the bytes are Gloo's: in
// the clear, or, where one of the two ranks asks for it, sealed
// (sealed_socket.h) with the keys HMAC(key, "u" or "d" a b rank mesh).
#pragma once

#include <string>
#include <vector>

#include "dtune/base/descriptor.h"
#include "dtune/base/encrypt_ranks.h"
#include "dtune/comm/collective.h"

namespace dtune {

// "group 'name'", as errors call it.
std::string group_text(const std::string& name);

// [mesh][rank]: connected and not blocking; none for the own rank. All ranks
// want as many meshes. Costs 1 set and size - 1 gets of the store for each
// rank. Blocks within given.connect_timeout; throws as make_gloo_group(), and
// Error(comm) where no port of the range is free.
std::vector<std::vector<Descriptor>> connect_ranks(
    const GroupOptions& given, int meshes, RendezvousStore& store,
    bool sealed = encrypts_ranks());

}  // namespace dtune
