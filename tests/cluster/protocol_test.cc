#include "dtune/cluster/protocol.h"

#include <cmath>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/study/slots.h"

using namespace dtune;           // NOLINT: a test
using namespace dtune::control;  // NOLINT: a test

namespace {

std::string error_of(const std::string& bytes) {
  try {
    decode(bytes);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::comm);
    return e.what();
  }
  return "";
}

Assign assignment() {
  Assign assign;
  assign.slot = 3;
  assign.trial = 7;
  assign.attempt = 2;
  assign.kind = TrialKind::final;
  assign.point = {{"lr", 0.1},        {"whole", 1.0},  // stays a real
                  {"none", -0.0},     {"batch", int64_t{-64}},
                  {"nesterov", true}, {"optimizer", std::string("adam")}};
  assign.seed = std::numeric_limits<uint64_t>::max();
  assign.target = 4;
  assign.checkpoint = "/a/b";
  return assign;
}

}  // namespace

TEST_CASE("an assignment reads back as it was written, types of values too") {
  const Message message = decode(encode(assignment()));
  const auto& back = std::get<Assign>(message);
  const Assign sent = assignment();
  CHECK(back.point == sent.point);
  CHECK(back.seed == sent.seed);
  CHECK(back.kind == sent.kind);
  CHECK(back.checkpoint == sent.checkpoint);
  CHECK(slot_of(message) == 3);
}

TEST_CASE("a report carries NaN and infinity") {
  Report report;
  report.report.step = 1;
  report.report.metrics = {{"a", std::nan("")}, {"b", -HUGE_VAL}};
  const auto back = std::get<Report>(decode(encode(report)));
  CHECK(std::isnan(back.report.metrics.at("a")));
  CHECK(back.report.metrics.at("b") == -HUGE_VAL);
}

TEST_CASE("every truncation of a message is refused") {
  const std::string bytes = encode(assignment());
  for (size_t size = 0; size < bytes.size(); ++size) {
    CHECK(error_of(bytes.substr(0, size)) != "");
  }
}

TEST_CASE("a message of another version says which dtune to run") {
  CHECK(
      error_of("\x93\x09\xa3"
               "ack\x80") ==
      "message is of protocol version 9, this is version 3 (run the same dtune "
      "on all machines)");
}

TEST_CASE("messages that lie are refused") {
  CHECK(error_of("\x93\x03\xa5"
                 "hallo\x80") == "message hallo: is of an unknown type");
  CHECK(error_of("\x93\x03\xa4"
                 "stop\x80") == "message stop: 'now' is missing");
  CHECK(error_of("\x93\x03\xa4"
                 "stop\x81\xa3now\x05") ==
        "message stop: 'now' is not true or false");
  Ack ack;
  ack.slot = kMaxSlots;
  CHECK(error_of(encode(ack)) ==
        "message ack: 'slot' is 4096 (0 to 4095 are possible)");
  CHECK(error_of(encode(Stop{}) + "x") == "message has 1 bytes after its end");
}

// Their product is a number of threads.
TEST_CASE("slots and threads of an agent have bounds that multiply") {
  Hello hello;
  hello.slots = kMaxSlots;
  hello.threads = kMaxThreads;
  CHECK(error_of(encode(hello)) == "");
  CHECK(int64_t{kMaxSlots} * kMaxThreads <= std::numeric_limits<int>::max());
  ++hello.threads;
  CHECK(error_of(encode(hello)).find("'threads' is 4097") != std::string::npos);
  hello.threads = 1;
  ++hello.slots;
  CHECK(error_of(encode(hello)).find("'slots' is 4097") != std::string::npos);
}

TEST_CASE("nesting and size are bounded before anything is built") {
  CHECK(error_of(std::string(1'000'000, '\x91')) != "");
  CHECK(
      error_of(std::string(wire::kMaxFrameBytes + 1, '\x01')).find("allowed") !=
      std::string::npos);
  // Claims four thousand million elements.
  CHECK(error_of("\xdd\xff\xff\xff\xff") != "");
  Welcome welcome;
  welcome.recipe_yaml = std::string(wire::kMaxFrameBytes, 'x');
  CHECK_THROWS_AS(encode(welcome), Error);
}

TEST_CASE("fields that a newer dtune adds are skipped") {
  const std::string bytes = encode(Enrolled{"digits"});
  // A map of two where there was one: {"study": "digits", "new": []}.
  std::string more = bytes;
  more[bytes.find('\x81')] = '\x82';
  more += "\xa3new\x90";
  CHECK(std::get<Enrolled>(decode(more)).study_id == "digits");
}
