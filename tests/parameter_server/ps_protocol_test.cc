#include "dtune/parameter_server/ps_protocol.h"

#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/base/random.h"

using namespace dtune;

namespace {

const std::vector<float> kFloats = {1, -2, 3.5F, 0};

// One of each type, with fields that are all different.
std::vector<ps::Message> samples() {
  return {
      ps::Hello{7, 2, 3, 1000},
      ps::Follow{2, 1, 1000},
      ps::Lead{9, 2},
      ps::Present{9, 7, 3},
      ps::Grant{9, 5, 6, 7, 8, 9, 10, 11, 12, 0.5},
      ps::Piece{9, ps::Content::weights, 5, 4, ps::bytes_of(kFloats)},
      ps::Push{9, 6, 5, 1.5, 32, 20, 32, 0.25, 0.1},
      ps::Arrived{9, 3, 6},
      ps::Served{9, 5, 6, 7},
      ps::Wait{9, -1},
      ps::Finish{9},
      ps::Buffers{9},
      ps::Final{9, 5, 6, 7, 1.5, 32, 20, 32},
      ps::WantState{9},
      ps::State{9},
      ps::Broken{9, true, "diverged: it did"},
      ps::Alive{9},
      ps::Combine{9, 1, {{0, 5, 0.25}, {1, 6, 0.75}}, true},
      ps::Combined{9, 1, 2.5},
      ps::Apply{9, 2, 0.1, 4, 0.5, 3, 7},
      ps::Drop{9, 3, 3, 6},
      ps::Serve{9, 4, 3, 6, 7},
      ps::Forget{9, 5, 3},
  };
}

std::string error_of(const Frames& frames) {
  try {
    ps::decode(frames);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::comm);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every message of the parameter server reads back as written") {
  const std::vector<ps::Message> all = samples();
  REQUIRE(all.size() == std::variant_size_v<ps::Message>);
  for (size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    CHECK(all[i].index() == i);
    const Frames frames = ps::encode(all[i]);
    const ps::Message back = ps::decode(frames);
    CHECK(back.index() == i);
    CHECK(ps::encode(back) == frames);
    CHECK(ps::session_of(back) == (i < 2 ? 0 : 9));
  }
}

TEST_CASE("a piece carries its floats and a router's peer comes first") {
  const Frames frames = ps::encode(
      ps::Piece{9, ps::Content::gradient, 5, 4, ps::bytes_of(kFloats)},
      {"peer"});
  REQUIRE(frames.size() == 3);
  CHECK(frames[0] == "peer");
  const ps::Message back = ps::decode(std::span(frames).subspan(1));
  std::vector<float> floats(kFloats.size());
  ps::copy_floats(std::get<ps::Piece>(back).floats, floats);
  CHECK(floats == kFloats);
}

TEST_CASE("every truncation and every addition is refused") {
  for (const ps::Message& message : samples()) {
    const Frames whole = ps::encode(message);
    for (size_t size = 0; size < whole[0].size(); ++size) {
      Frames part = whole;
      part[0].resize(size);
      CHECK(error_of(part) != "");
    }
    Frames longer = whole;
    longer[0] += 'x';
    CHECK(error_of(longer).find("after its end") != std::string::npos);
    Frames more = whole;
    more.emplace_back("more");
    CHECK(error_of(more) != "");
  }
  CHECK(error_of({}) != "");
}

TEST_CASE("messages of a parameter server that lie are refused") {
  Frames other = ps::encode(ps::Arrived{9, 3, 5});
  other[0][1] = 9;  // the version
  CHECK(error_of(other).find("same dtune") != std::string::npos);
  CHECK(error_of({"\x93\x03\xa3huh\x80"}).find("unknown type") !=
        std::string::npos);
  CHECK(error_of(ps::encode(ps::Arrived{9, -1, 5})) != "");
  CHECK(error_of(ps::encode(ps::Arrived{9, ps::kMaxMembers, 5})) != "");
  CHECK(error_of(ps::encode(ps::Push{.totals = {.samples = -1}})) != "");
  CHECK(error_of(ps::encode(ps::Grant{.size = 0})) != "");
  Frames piece = ps::encode(
      ps::Piece{9, ps::Content::gradient, 5, 4, ps::bytes_of(kFloats)});
  piece[1] = "12345";  // no whole float
  CHECK(error_of(piece) != "");
  piece[1].assign(static_cast<size_t>(ps::kPieceFloats) * 4 + 4, 'x');
  CHECK(error_of(piece) != "");
  // Claims more terms than there are bytes.
  std::string combine = ps::encode(ps::Combine{9, 1, {}, false})[0];
  combine[combine.find("terms\x90") + 5] = '\x9f';
  CHECK(error_of({combine}) != "");
}

TEST_CASE("random bytes make an error or a message that reads back") {
  Rng rng(3);
  const std::vector<ps::Message> all = samples();
  for (int i = 0; i < 20000; ++i) {
    Frames frames = ps::encode(all[rng.below(all.size())]);
    const uint64_t changes = 1 + rng.below(4);
    for (uint64_t k = 0; k < changes; ++k) {
      frames[0][rng.below(frames[0].size())] =
          static_cast<char>(rng.below(256));
    }
    if (error_of(frames).empty()) {
      const Frames once = ps::encode(ps::decode(frames));
      CHECK(ps::encode(ps::decode(once)) == once);
    }
  }
}

TEST_CASE("pieces cover the parameters once and are at most a mebibyte") {
  for (const int64_t parameters :
       {0L, 1L, 17L, 1000L, 262144L, 262145L, 3'000'001L}) {
    for (const int servers : {1, 2, 3, 7}) {
      const ps::Layout layout(parameters, servers);
      int64_t at = 0;
      int64_t largest = 0;
      for (int server = 0; server < servers; ++server) {
        CHECK(layout.slice(server).begin == at);
        largest = std::max(largest, layout.slice(server).size());
        for (const ps::Range& piece : layout.pieces(server)) {
          CHECK(piece.begin == at);
          CHECK(piece.size() >= 1);
          CHECK(piece.size() <= ps::kPieceFloats);
          at = piece.end;
        }
      }
      CHECK(at == parameters);
      CHECK(largest <= parameters / servers + 16);
    }
  }
}
