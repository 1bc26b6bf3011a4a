#include "dtune/base/error.h"

#include <cerrno>
#include <string>

#include <doctest/doctest.h>

using namespace dtune;  // NOLINT(google-build-using-namespace)

TEST_CASE("every kind of error has its exit code and its word") {
  CHECK(exit_code(ErrorKind::config) == 2);
  CHECK(exit_code(ErrorKind::data) == 2);
  CHECK(exit_code(ErrorKind::temporary) == 75);
  CHECK(exit_code(ErrorKind::interrupted) == 130);
  CHECK(exit_code(ErrorKind::store) == 3);
  CHECK(exit_code(ErrorKind::comm) == 3);
  CHECK(exit_code(ErrorKind::trial) == 3);
  CHECK(exit_code(ErrorKind::study) == 3);
  CHECK(exit_code(ErrorKind::internal) == 3);
  CHECK(std::string(to_string(ErrorKind::config)) == "config");
  CHECK(std::string(to_string(ErrorKind::temporary)) == "temporary");
}

TEST_CASE("a broken invariant is an internal error that says where") {
  const auto broken = [] { DTUNE_CHECK(1 + 1 == 3); };
  CHECK_NOTHROW([] { DTUNE_CHECK(1 + 1 == 2); }());
  try {
    broken();
    FAIL("did not throw");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::internal);
    const std::string text = error.what();
    CHECK(text.find("error_test.cc:") != std::string::npos);
    CHECK(text.find("'1 + 1 == 3' does not hold") != std::string::npos);
  }
}

TEST_CASE("codes of the system have words") {
  CHECK(errno_text(ENOSPC) == "No space left on device");
}
