#include "dtune/base/parallel.h"

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace dtune;

TEST_CASE("every pass of a parallel loop runs once") {
  std::vector<std::atomic<int>> runs(1000);
  parallel_for(runs.size(), [&](size_t i) { ++runs[i]; });
  for (const auto& count : runs) CHECK(count == 1);
  parallel_for(0, [](size_t) { FAIL("no pass was asked for"); });
}

TEST_CASE("the first failing pass is the one that is reported") {
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::string message;
    try {
      parallel_for(500, [](size_t i) {
        if (i == 100 || i > 101) throw std::runtime_error(std::to_string(i));
      });
    } catch (const std::runtime_error& error) {
      message = error.what();
    }
    REQUIRE(message == "100");
  }
}
