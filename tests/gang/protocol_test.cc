#include "dtune/gang/protocol.h"

#include <string>
#include <variant>

#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/base/random.h"
#include "dtune/gang/reliable_link.h"
#include "dtune/wire/frames.h"

namespace dtune::gang {
namespace {

Go sample_go() {
  Go go;
  go.round = 7;
  go.participants = {0, 2, 5};
  go.totals = {1.5, 32, 20, 32};
  go.source = 2;
  go.targets = {1};
  go.patience = std::chrono::seconds(5);
  go.next.round = 8;
  go.next.phase = Phase::evaluate;
  go.next.spans = {{0, 10}, {40, 2}};
  go.metrics = {{"val_accuracy", 0.5}};
  return go;
}

std::string problem_of(std::string_view bytes) {
  try {
    decode(bytes);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::comm);
    return e.what();
  }
  return "";
}

std::string go_of(const Packet& packet) {
  const auto& go = std::get<Go>(packet.message);
  return encode({packet.sequence, packet.ack, packet.begun, go});
}

}  // namespace

TEST_CASE("every message of a gang reads back as it was written") {
  const Packet packet{3, 2, 1, sample_go()};
  const std::string bytes = encode(packet);
  CHECK(go_of(decode(bytes)) == bytes);
  const auto go = std::get<Go>(decode(bytes).message);
  CHECK(go.participants == std::vector<int>{0, 2, 5});
  CHECK(go.next.spans.at(1).first == 40);
  CHECK(go.next.phase == Phase::evaluate);
  CHECK(go.patience == std::chrono::seconds(5));
  Join join{"7.1", 3, "p", 9};
  CHECK(std::get<Join>(decode(encode({0, 0, 0, join})).message).session == 9);
  CatchUp late;
  late.source = -1;  // it has missed no update
  CHECK(std::get<CatchUp>(decode(encode({1, 0, 0, late})).message).source ==
        -1);
  const GiveUp silent{.incarnation = 4, .member = 2};
  CHECK(std::get<GiveUp>(decode(encode({1, 0, 0, silent})).message).member ==
        2);
}

TEST_CASE("bytes that are not a message of a gang are an error that says so") {
  CHECK(problem_of("") != "");
  CHECK(problem_of("garbage") != "");
  CHECK(problem_of(std::string(wire::kMaxFrameBytes + 1, 'x'))
            .find("are allowed") != std::string::npos);
  const std::string bytes = encode({1, 0, 0, sample_go()});
  for (size_t i = 0; i < bytes.size(); ++i) {
    CHECK(problem_of(bytes.substr(0, i)) != "");
  }
  CHECK(problem_of(bytes + "x") != "");
  using namespace std::string_view_literals;
  CHECK(problem_of("\x96\x09\xa2go\x80\x00\x00\x00"sv).find("version 9") !=
        std::string::npos);
  CHECK(problem_of("\x93\x03\xa3huh\x80").find("unknown type") !=
        std::string::npos);
}

TEST_CASE("numbers that would index or overflow are refused") {
  Join join;
  join.member = kMaxMembers;
  CHECK(problem_of(encode({0, 0, 0, join})).find("member") !=
        std::string::npos);
  Begin begin;
  begin.end = int64_t{1} << 60;
  CHECK(problem_of(encode({1, 0, 0, begin})).find("end") != std::string::npos);
  Go go = sample_go();
  go.next.spans = {{-1, 5}};
  CHECK(problem_of(encode({1, 0, 0, go})).find("span") != std::string::npos);
  TraceChunk chunk;
  chunk.events.push_back({.kind = TraceEvent::Kind{3}});
  CHECK(problem_of(encode({1, 0, 0, chunk})).find("kind") != std::string::npos);
}

TEST_CASE("a link repeats what is not acknowledged and takes nothing twice") {
  MonoTime now{std::chrono::seconds(1)};
  ReliableLink a;
  ReliableLink b;
  const Packet first = decode(a.send(Left{}, 0, now));
  const Packet second = decode(a.send(Leave{}, 0, now));
  CHECK(!b.receive(second));  // the first is missing
  CHECK(b.receive(first));
  CHECK(!b.receive(first));
  CHECK(a.repeats(now).empty());
  now += ReliableLink::kRepeat;
  const auto again = a.repeats(now);
  REQUIRE(again.size() == 2);
  CHECK(!b.receive(decode(again[0])));
  CHECK(b.receive(decode(again[1])));
  CHECK(a.receive(decode(b.send_unnumbered(Again{}))));
  CHECK(a.pending() == 0);
}

TEST_CASE("whatever is lost or doubled a link delivers once and in order") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Rng rng(seed);
    MonoTime now{std::chrono::seconds(1)};
    ReliableLink a;
    ReliableLink b;
    std::vector<std::string> got;
    const auto deliver = [&](const std::string& bytes) {
      for (uint64_t copies = rng.below(3); copies > 0; --copies) {
        const Packet packet = decode(bytes);
        if (b.receive(packet)) {
          got.push_back(std::get<StoreGet>(packet.message).key);
        }
      }
    };
    for (int i = 0; i < 40; ++i) {
      deliver(a.send(StoreGet{std::to_string(i)}, 0, now));
    }
    while (a.pending() > 0) {
      now += ReliableLink::kRepeat;
      for (const std::string& bytes : a.repeats(now)) deliver(bytes);
      if (rng.uniform() < 0.7) a.receive(decode(b.send_unnumbered(Again{})));
    }
    REQUIRE(got.size() == 40);
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == std::to_string(i));
  }
}

}  // namespace dtune::gang
