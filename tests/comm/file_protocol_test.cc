#include "dtune/comm/file_protocol.h"

#include <cstdint>

#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/base/random.h"
#include "dtune/comm/file_hash.h"

using namespace dtune;         // NOLINT: a test
using namespace dtune::files;  // NOLINT: likewise

namespace {

Message back(const Message& message) { return decode(encode(message)); }

bool refuses(const Frames& frames) {
  try {
    decode(frames);
    return false;
  } catch (const Error& e) {
    return e.kind() == ErrorKind::comm;
  }
}

}  // namespace

TEST_CASE("the sum of a file is XXH64 however it comes in pieces") {
  // The vectors of the specification's reference implementation.
  CHECK(file_hash("") == 0xEF46DB3751D8E999);
  CHECK(file_hash("a") == 0xD24EC4F1A98C6E5B);
  CHECK(file_hash("abc") == 0x44BC2CF5AD770999);
  CHECK(file_hash("The quick brown fox jumps over the lazy dog") ==
        0x0B242D361FDA71BC);
  std::string text;
  for (int i = 0; i < 500; ++i) text.push_back(static_cast<char>(i * 37));
  for (size_t piece = 1; piece < 70; ++piece) {
    FileHash hash;
    for (size_t at = 0; at < text.size(); at += piece) {
      hash.add(std::string_view(text).substr(at, piece));
    }
    CHECK(hash.value() == file_hash(text));
  }
}

TEST_CASE("every file message reads back as it was") {
  CHECK(std::get<Find>(back(Find{7, "data"})).name == "data");
  const auto found = std::get<Found>(back(Found{7, 1u << 20, 0xdeadbeefcafe}));
  CHECK(found.size == 1u << 20);
  CHECK(found.hash == 0xdeadbeefcafe);
  const auto read =
      std::get<Read>(back(Read{8, "checkpoint/12", 5, uint64_t{1} << 33, 77}));
  CHECK(read.request == 8);
  CHECK(read.name == "checkpoint/12");
  CHECK(read.hash == 5);
  CHECK(read.offset == uint64_t{1} << 33);
  CHECK(read.size == 77);
  const auto chunk = std::get<Chunk>(back(Chunk{1, 2, 0, "bytes"}));
  CHECK(chunk.data == "bytes");
  CHECK(chunk.offset == 2);
  const auto put = std::get<Put>(back(Put{1, "model/3", 4, 5, 6}));
  CHECK(put.ticket == 4);
  CHECK(put.size == 5);
  CHECK(put.hash == 6);
  CHECK(std::get<Accepted>(back(Accepted{1, 9})).offset == 9);
  CHECK(std::get<Write>(back(Write{1, "a", 3, 0, "xyz"})).data == "xyz");
  CHECK(std::get<Stored>(back(Stored{3})).request == 3);
  const auto refused = std::get<Refused>(back(Refused{1, Why::full, "no"}));
  CHECK(refused.why == Why::full);
  CHECK(refused.text == "no");
}

TEST_CASE("a name can never lead out of what is shared") {
  for (const char* name : {"data", "checkpoint/1", "a-b_c.d/e"}) {
    CHECK(is_name(name));
  }
  for (const char* name :
       {"", "/", "/etc/passwd", "..", "../x", "a/../b", "a//b", "a/", ".hidden",
        "a/.b", "a b", "a\\b", "a:b", "~", "a\n"}) {
    CAPTURE(name);
    CHECK_FALSE(is_name(name));
    CHECK(refuses(encode(Find{1, name})));
  }
  CHECK_FALSE(is_name(std::string("a\0b", 3)));
  CHECK_FALSE(is_name(std::string(kMaxName + 1, 'a')));
}

TEST_CASE("limits of file messages hold") {
  CHECK(refuses(encode(Chunk{1, 0, 0, std::string(kChunkBytes + 1, 'x')})));
  CHECK(refuses(encode(Read{1, "a", 0, 0, 0})));
  CHECK(refuses(encode(Read{1, "a", 0, 0, kChunkBytes + 1})));
  CHECK(refuses(encode(Read{1, "a", 0, kMaxFileBytes + 1, 1})));
  CHECK(refuses(encode(Put{1, "a", 0, kMaxFileBytes + 1, 0})));
  Frames damaged = encode(Chunk{1, 0, 0, "some bytes"});
  damaged[1][3] ^= 1;
  CHECK(refuses(damaged));
  Frames more = encode(Stored{1});
  more.push_back("");
  CHECK(refuses(more));
  CHECK(refuses({}));
}

TEST_CASE("mutilated file messages are errors and nothing else") {
  Rng rng(3);
  const Frames seeds[] = {encode(Find{1, "data"}),
                          encode(Found{1, 2, 3}),
                          encode(Read{1, "a/b", 2, 3, 4}),
                          encode(Chunk{1, 2, 0, "data"}),
                          encode(Put{1, "model/3", 4, 5, 6}),
                          encode(Refused{1, Why::full, "why"}),
                          encode(Write{1, "a", 3, 0, "xyz"})};
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    Frames frames = seeds[rng.below(std::size(seeds))];
    std::string& bytes = frames[rng.below(frames.size())];
    for (uint64_t n = rng.below(4); n > 0 && !bytes.empty(); --n) {
      bytes[rng.below(bytes.size())] = static_cast<char>(rng());
    }
    if (rng.below(4) == 0) bytes.resize(rng.below(bytes.size() + 10));
    try {
      const Message message = decode(frames);
      const Frames once = encode(message);
      CHECK(encode(decode(once)) == once);
      ++accepted;
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::comm);
    }
  }
  CHECK(accepted > 0);
}
