#include "dtune/cluster/bounded_log.h"

#include <string>

#include <doctest/doctest.h>

#include "dtune/base/file.h"

using namespace dtune;  // NOLINT: a test

TEST_CASE("a log keeps its last lines and no more than twice its bound") {
  const TemporaryDirectory folder;
  const auto file = folder.path() / "agent.log";
  const auto before = folder.path() / "agent.log.1";
  {
    BoundedLog log(file, 1000);
    log.write("first");
  }
  BoundedLog log(file, 1000);
  log.write("second");
  CHECK(read_file(file) == "first\nsecond\n");
  for (int i = 0; i < 1000; ++i) {
    log.write("line " + std::to_string(i));
    REQUIRE(std::filesystem::file_size(file) <= 1000);
  }
  const std::string kept = read_file(before) + read_file(file);
  CHECK(kept.size() >= 1000);
  CHECK(kept.size() <= 2000);
  CHECK(kept.ends_with("line 998\nline 999\n"));
  CHECK(kept.find("line 950\n") != std::string::npos);
}
