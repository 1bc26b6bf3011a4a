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

TEST_CASE("what is no trace is refused with its line") {
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
