#include "dtune/wire/codec.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "dtune/base/error.h"

// Messages of a conversation that only these tests have.
namespace toy {

using namespace dtune;  // NOLINT: a test

enum class Colour { red, green };

struct Part {
  int64_t size = 0;
  double weight = 0;
};

struct Plain {
  bool flag = false;
  int whole = 0;
  int64_t large = 0;
  uint64_t seed = 0;
  double real = 0;
  std::string text;
  Duration time{0};
  Colour colour = Colour::red;
  std::vector<int> list;
  std::map<std::string, wire::Scalar> point;
  std::vector<Part> parts;
};

struct Bounded {
  int slot = 0;
  uint64_t size = 0;
  double loss = 0;
  std::vector<int> members;
  std::map<std::string, double> metrics;
  std::string name;
};

struct Bulky {
  int number = 0;
  std::string_view floats{};
  std::string data;
};

struct Envelope {
  int64_t sequence = 0;
};

using Message = std::variant<Plain, Bounded, Bulky>;

template <class V>
void fields(V& visit, Part& m) {
  visit("size", m.size, wire::kCount);
  visit("weight", m.weight);
}

template <class V>
void fields(V& visit, Plain& m) {
  visit("flag", m.flag);
  visit("whole", m.whole);
  visit("large", m.large);
  visit("seed", m.seed);
  visit("real", m.real);
  visit("text", m.text);
  visit("time", m.time, wire::kTime);
  visit("colour", m.colour, Colour::green);
  visit("list", m.list);
  visit("point", m.point);
  visit("parts", m.parts);
}

bool is_short(std::string_view text) { return text.size() < 4; }

template <class V>
void fields(V& visit, Bounded& m) {
  visit("slot", m.slot, wire::Between{1, 3});
  visit("size", m.size, wire::Between{0, 10});
  visit("loss", m.loss, wire::AnyReal{});
  visit("members", m.members, wire::Between{-1, 7});
  visit("metrics", m.metrics, wire::AnyReal{});
  visit("name", m.name, wire::Text{is_short, "is too long"});
}

template <class V>
void fields(V& visit, Bulky& m) {
  visit("number", m.number);
  visit.bulk("floats", m.floats, wire::Bytes{.least = 4, .most = 8, .unit = 4});
  visit.bulk("data", m.data);
}

template <class V>
void fields(V& visit, Envelope& m) {
  visit("sequence", m.sequence, wire::kCount);
}

constexpr wire::Codec<Message> kCodec{{"plain", "bounded", "bulky"}};

Plain full() {
  Plain m;
  m.flag = true;
  m.whole = -5;
  m.large = std::numeric_limits<int64_t>::min();
  m.seed = std::numeric_limits<uint64_t>::max();
  m.real = 1;
  m.text = std::string("a\0b", 3);
  m.time = std::chrono::seconds(-3);
  m.colour = Colour::green;
  m.list = {1, -1, 1 << 30};
  m.point = {{"lr", 0.1},
             {"one", 1.0},
             {"count", int64_t{-64}},
             {"on", true},
             {"word", std::string("adam")}};
  m.parts = {{1, 0.5}, {2, 1e300}};
  return m;
}

Bounded bounded() { return {.slot = 1}; }

std::string error_of(const Frames& frames) {
  try {
    kCodec.decode(frames);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::comm);
    return e.what();
  }
  return "";
}

std::string error_of(const Message& message) {
  return error_of(kCodec.encode(message));
}

}  // namespace toy

using namespace toy;  // NOLINT: a test

TEST_CASE("every kind of field reads back as it was written") {
  const auto back = std::get<Plain>(kCodec.decode(kCodec.encode(full())));
  const Plain sent = full();
  CHECK(back.flag);
  CHECK(back.whole == sent.whole);
  CHECK(back.large == sent.large);
  CHECK(back.seed == sent.seed);
  CHECK(back.real == sent.real);
  CHECK(back.text == sent.text);
  CHECK(back.time == sent.time);
  CHECK(back.colour == sent.colour);
  CHECK(back.list == sent.list);
  CHECK(back.point == sent.point);  // a whole real stays a real
  REQUIRE(back.parts.size() == 2);
  CHECK(back.parts[1].size == 2);
  CHECK(back.parts[1].weight == 1e300);
}

TEST_CASE("an error says which message and which field") {
  Plain plain = full();
  plain.parts[1].size = -1;
  CHECK(error_of(plain) ==
        "message plain: 'parts[1].size' is -1 (0 to 72057594037927936 are "
        "possible)");
  plain = full();
  plain.point["lr"] = std::nan("");
  CHECK(error_of(plain) == "message plain: 'point.lr' is not finite");
  plain = full();
  plain.parts[0].weight = HUGE_VAL;
  CHECK(error_of(plain) == "message plain: 'parts[0].weight' is not finite");
  plain = full();
  plain.colour = Colour{2};
  CHECK(error_of(plain) ==
        "message plain: 'colour' is 2 (0 to 1 are possible)");
}

TEST_CASE("what a field states of its numbers and texts holds") {
  CHECK(error_of(bounded()) == "");
  Bounded m = bounded();
  m.slot = 4;
  CHECK(error_of(m) == "message bounded: 'slot' is 4 (1 to 3 are possible)");
  m = bounded();
  m.size = 11;
  CHECK(error_of(m).find("'size' is 11") != std::string::npos);
  m.size = std::numeric_limits<uint64_t>::max();
  CHECK(error_of(m) == "message bounded: 'size' is out of range");
  m = bounded();
  m.members = {0, -1, 8};
  CHECK(error_of(m).find("'members[2]' is 8") != std::string::npos);
  m = bounded();
  m.name = "long";
  CHECK(error_of(m) == "message bounded: 'name' is too long");
}

TEST_CASE("a real is finite unless its field says that it may be any") {
  Plain plain = full();
  plain.real = std::nan("");
  CHECK(error_of(plain) == "message plain: 'real' is not finite");
  Bounded m = bounded();
  m.loss = std::nan("");
  m.metrics = {{"a", HUGE_VAL}};
  const auto back = std::get<Bounded>(kCodec.decode(kCodec.encode(m)));
  CHECK(std::isnan(back.loss));
  CHECK(back.metrics.at("a") == HUGE_VAL);
}

TEST_CASE("a number too large for its type is refused") {
  // {"whole": 2^40} where an int belongs.
  Frames frames = kCodec.encode(full());
  const size_t at = frames[0].find("whole") + 5;
  frames[0].replace(at, 1, std::string("\xcf\0\0\x01\0\0\0\0\0", 9));
  CHECK(error_of(frames).find("'whole' is 1099511627776") != std::string::npos);
}

TEST_CASE("fields in bulk are frames of their own") {
  const std::string floats = "12345678";
  Frames frames = kCodec.encode(Bulky{7, floats, "data"}, {"peer"});
  REQUIRE(frames.size() == 4);
  CHECK(frames[0] == "peer");
  CHECK(frames[2] == floats);
  CHECK(frames[3] == "data");
  frames.erase(frames.begin());
  const auto back = std::get<Bulky>(kCodec.decode(frames));
  CHECK(back.number == 7);
  CHECK(back.floats.data() == frames[1].data());  // not copied
  CHECK(back.data == "data");

  frames.push_back("more");
  CHECK(error_of(frames) == "message bulky: has too many frames");
  frames.resize(2);
  CHECK(error_of(frames) == "message bulky: 'data' is missing");
  frames.resize(1);
  CHECK(error_of(frames) == "message bulky: 'floats' is missing");
  CHECK(error_of(Bulky{7, "", ""}).find("'floats' has 0 bytes") !=
        std::string::npos);
  CHECK(error_of(Bulky{7, "12345", ""}) != "");
  CHECK(error_of(Bulky{7, "123456789012", ""}) != "");
  CHECK(error_of(Frames{}) == "message has no frame");
}

TEST_CASE("what travels beside a message is read from the same map") {
  Envelope envelope{5};
  const Frames frames = kCodec.encode(bounded(), {}, envelope);
  Envelope back;
  CHECK(kCodec.decode(frames, back).index() == 1);
  CHECK(back.sequence == 5);
  CHECK(error_of(frames) == "");  // skipped where it is not asked for
  envelope.sequence = -1;
  CHECK_THROWS_WITH_AS(
      kCodec.decode(kCodec.encode(bounded(), {}, envelope), back),
      "message bounded: 'sequence' is -1 (0 to 72057594037927936 are "
      "possible)",
      Error);
}

TEST_CASE("bytes that are not a message are refused as a whole") {
  CHECK(error_of(Frames{"\x80"}) == "message is not [version, type, fields]");
  CHECK(error_of(Frames{"\x90"}) == "message is not [version, type, fields]");
  CHECK(error_of(Frames{"\x92\x03\x80"}) ==
        "message is not [version, type, fields]");
  CHECK(error_of(Frames{"\x93\xa1x\x80\x80"}) ==
        "message is not a whole number");
  CHECK(error_of(Frames{"\x93\x03\x80\x80"}) == "message is not a text");
  CHECK(error_of(Frames{"\x93\x03\xa5plain\x90"}) == "message is not a map");
  CHECK(error_of(Frames{std::string(100, '\x91')}) != "");
  // Claims four thousand million elements.
  CHECK(error_of(Frames{"\xdd\xff\xff\xff\xff"}) != "");
  CHECK_THROWS_AS(
      kCodec.encode(Plain{.text = std::string(wire::kMaxFrameBytes, 'x')}),
      Error);
}
