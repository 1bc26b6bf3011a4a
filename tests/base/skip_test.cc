#include "skip.h"

#include <cstdlib>
#include <string>

#include <doctest/doctest.h>
#include <sys/wait.h>

#include "dtune/base/file.h"

using namespace dtune;  // NOLINT: a test

namespace {

// Exit code of this program with the cases of one name, among them those that
// are left out by default.
int exit_code_of(const std::string& cases) {
  const std::string program = (executable_directory() / "base_test").string();
  const int status = std::system(
      ("'" + program + "' --no-skip --test-case='" + cases + "' >/dev/null")
          .c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("skipping example: skipped" * doctest::skip()) {
  return skip("it is an example");
}

TEST_CASE("skipping example: passed" * doctest::skip()) { CHECK(true); }

TEST_CASE("skipping example: failed" * doctest::skip()) {
  CHECK(false);
  return skip("too late");
}

TEST_CASE("a program ends as skipped only if nothing ran and nothing failed") {
  CHECK(exit_code_of("skipping example: skipped") == kSkippedExit);
  CHECK(exit_code_of("skipping example: passed") == 0);
  CHECK(exit_code_of("skipping example: failed") == 1);
  CHECK(exit_code_of("skipping example: *ed") == 1);
  CHECK(exit_code_of("skipping example: *pped,skipping example: passed") == 0);
}
