#include "dtune/speed/speed_traces.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/speed/speed_predictor.h"

using namespace dtune;  // NOLINT: a test

namespace {

double largest_ratio(const std::vector<double>& trace) {
  const auto [low, high] = std::minmax_element(trace.begin(), trace.end());
  return *high / *low;
}

std::string refusal(const std::filesystem::path& path,
                    const std::string& text) {
  write_file_atomic(path, text, false);
  try {
    read_speed_trace(path);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::data);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("traces are speeds, the same for a seed and others for others") {
  for (const Slowness kind : kSlownesses) {
    const std::vector<double> trace = make_speed_trace(kind, 300, 7);
    REQUIRE(trace.size() == 300);
    CHECK(std::all_of(trace.begin(), trace.end(), is_speed));
    CHECK(trace == make_speed_trace(kind, 300, 7));
    CHECK(trace != make_speed_trace(kind, 300, 8));
    CHECK(largest_ratio(trace) < 1e4);
  }
  CHECK(make_speed_trace(Slowness::mixed, 0, 1).empty());
}

TEST_CASE("only constant traces are without slowness") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    // Noise of at most 8%: six deviations.
    CHECK(largest_ratio(make_speed_trace(Slowness::constant, 400, seed)) < 2.7);
    const auto periodic = make_speed_trace(Slowness::periodic, 400, seed);
    CHECK(largest_ratio(periodic) > 1.25);
  }
}

TEST_CASE("kinds of slowness have names") {
  CHECK(std::string(to_string(Slowness::constant)) == "constant");
  CHECK(std::string(to_string(Slowness::mixed)) == "mixed");
}

TEST_CASE("a recorded trace is one speed a line") {
  const TemporaryDirectory folder("dtune-traces");
  const auto path = folder.path() / "t.csv";
  write_file_atomic(
      path, "samples_per_second\n# node 7\n100\n 90.5 \r\n\n1e2 # x\n3", false);
  CHECK(read_speed_trace(path) == std::vector<double>{100, 90.5, 100, 3});
}

TEST_CASE("what --trace writes has the speeds of each rank") {
  const TemporaryDirectory folder("dtune-traces");
  const auto path = folder.path() / "t.json";
  // Rank 0 computes 32 samples in .4 s, then 48 in .5 s; rank 1 32 in .8 s, and
  // 16 in .2 s. The third round of rank 1 was not ended.
  const std::string events = R"([
{"name":"process_name","ph":"M","pid":1,"args":{"name":"rank 0"}},
{"name":"batch share","ph":"C","pid":0,"ts":10,"args":{"rank 0":32,"rank 1":32}},
{"name":"forward","ph":"X","pid":1,"tid":1,"ts":20,"dur":100000},
{"name":"forward","ph":"X","pid":2,"tid":1,"ts":21,"dur":300000},
{"name":"backward","ph":"X","pid":1,"tid":1,"ts":100020,"dur":300000},
{"name":"backward","ph":"X","pid":2,"tid":1,"ts":300021,"dur":500000},
{"name":"batch share","ph":"C","pid":0,"ts":900000,"args":{"rank 0":48,"rank 1":16}},
{"name":"forward","ph":"X","pid":1,"tid":1,"ts":900001,"dur":200000},
{"name":"backward","ph":"X","pid":1,"tid":1,"ts":1100001,"dur":300000},
{"name":"forward","ph":"X","pid":2,"tid":1,"ts":900002,"dur":100000},
{"name":"backward","ph":"X","pid":2,"tid":1,"ts":1000002,"dur":100000},
{"name":"forward","ph":"X","pid":2,"tid":1,"ts":1400000,"dur":100000},
)";
  const std::string end = R"({"name":"end","ph":"M","pid":0,"args":{}}])";
  for (const std::string& last : {end + "\n", end, std::string(R"({"na)")}) {
    write_file_atomic(path, events + last, false);
    const auto speeds = read_speed_traces(path);
    REQUIRE(speeds.size() == 2);
    CHECK(speeds[0] == std::vector<double>{80, 96});
    CHECK(speeds[1] == std::vector<double>{40, 80});
  }
  write_file_atomic(path, events + "{\n" + end, false);
  CHECK_THROWS_WITH_AS(read_speed_traces(path),
                       doctest::Contains("t.json:14: is not an event"), Error);
  write_file_atomic(path, "[\n" + end, false);
  CHECK_THROWS_WITH_AS(read_speed_traces(path),
                       doctest::Contains("has no rank that trained"), Error);
  write_file_atomic(path, "3\n4\n", false);
  CHECK(read_speed_traces(path) == std::vector<std::vector<double>>{{3, 4}});
}

TEST_CASE("a file that is not a trace is refused with its line") {
  const TemporaryDirectory folder("dtune-traces");
  const auto path = folder.path() / "t.csv";
  const auto says = [&](const std::string& text, const std::string& what) {
    const std::string refused = refusal(path, text);
    CHECK_MESSAGE(refused.find(what) != std::string::npos, refused);
  };
  says("1\n2\nthree\n", "t.csv:3: 'three' is not a speed");
  says("heading\nanother\n1\n2\n", "t.csv:2: 'another'");
  says("1\n0\n", "t.csv:2: '0'");
  says("-1\n1\n", "t.csv:1: '-1'");
  says("1\n1e999\n", "t.csv:2: '1e999'");
  says("1,2\n", "t.csv:1: '1,2'");
  says("x\n1\nnan\n", "t.csv:3: 'nan'");
  says("1\n", "holds 1 speeds");
  says("", "holds 0 speeds");
}
