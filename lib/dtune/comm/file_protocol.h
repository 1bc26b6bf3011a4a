// What FileClient and FileServer say to each other.
//
//   client                        server
//     Find(name)              ->        download: what is there?
//                             <-  Found(size, hash)
//     Read(offset, hash) ...  ->        kWindow of them under way
//                             <-  Chunk(offset, data) ...
//     Put(name, ticket, size, hash) ->  upload: how much of it is there?
//                             <-  Accepted(offset)
//     Write(offset, data) ... ->        kWindow of them under way
//                             <-  Accepted(offset) ... Stored
//     anything                ->
//                             <-  Refused(why)
//
// The server keeps nothing of a download: every Read says which content it is
// about by its hash, so a client goes on where it was after a broken
// connection or a new server. Of an upload the server keeps the begin, in a
// file beside its target that is named by the content's hash.
//
// wire/fields.h says how a message is written; the data of Chunk and Write is a
// frame of its own. `request` comes back in the answer; a client takes a new
// one when it starts over, and drops answers to older ones.
//
// Cost of a file of n bytes: 2 messages and, for each chunk of 256 KiB, two
// more of some 50 bytes beside the data.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "dtune/wire/frames.h"

namespace dtune::files {

inline constexpr size_t kChunkBytes = size_t{256} << 10;
inline constexpr int kWindow = 8;  // chunks under way
inline constexpr size_t kMaxName = 200;
inline constexpr uint64_t kMaxFileBytes = uint64_t{1} << 44;

struct Find {
  uint64_t request = 0;
  std::string name;
};

struct Found {
  uint64_t request = 0;
  uint64_t size = 0;
  uint64_t hash = 0;  // file_hash.h, of the whole content
};

struct Read {
  uint64_t request = 0;
  std::string name;
  uint64_t hash = 0;  // of the content in Found
  uint64_t offset = 0;
  uint32_t size = 0;
};

struct Chunk {
  uint64_t request = 0;
  uint64_t offset = 0;
  uint64_t hash = 0;  // of `data`
  std::string data;
};

struct Put {
  uint64_t request = 0;
  std::string name;
  uint64_t ticket = 0;  // FileServer::accept
  uint64_t size = 0;
  uint64_t hash = 0;
};

struct Accepted {
  uint64_t request = 0;
  uint64_t offset = 0;  // bytes that are there: what follows comes next
};

struct Write {
  uint64_t request = 0;
  std::string name;
  uint64_t offset = 0;
  uint64_t hash = 0;  // of `data`
  std::string data;
};

struct Stored {
  uint64_t request = 0;
};

enum class Why : uint8_t {
  missing,    // served, but there is no such file just now
  forbidden,  // no such name, or not to be written (any more)
  changed,    // another content by now, or not what was announced: start over
  full,       // the server's disk
  failed,     // the server cannot read or write the file
};

struct Refused {
  uint64_t request = 0;
  Why why = Why::failed;
  std::string text;
};

using Message = std::variant<Find, Found, Read, Chunk, Put, Accepted, Write,
                             Stored, Refused>;

// A name consists of letters, digits, "-", "_", "." and "/", is relative, and
// has no part that is empty or begins with a dot.
bool is_name(std::string_view name);

// Sets the hash of data.
Frames encode(Message message);

// Throws Error(comm), never anything else, whatever the frames are: limits
// above, unknown type, too short or too long, an invalid name, data whose
// hash is wrong.
Message decode(std::span<const std::string> frames);

uint64_t request_of(const Message& message);

}  // namespace dtune::files
