#include "dtune/base/private_library.h"

#include <cstdlib>

#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"

using namespace dtune;  // NOLINT: a test

namespace {

const PrivateLibrary kLibrary{.name = "libextra.so",
                              .installed = "../far/extra",
                              .without = "nothing extra works",
                              .remedy = "build it",
                              .needs = "extra"};

}  // namespace

TEST_CASE("a private library is looked for in several places or in one") {
  ::unsetenv("DTUNE_LIBRARY_PATH");
  const std::string beside = executable_directory() / "libextra.so";
  CHECK_THROWS_WITH_AS(
      find_private_library(kLibrary),
      doctest::Contains(("libextra.so: not found, and without it nothing extra "
                         "works; looked for " +
                         beside)
                            .c_str()),
      Error);
  CHECK_THROWS_WITH_AS(find_private_library(kLibrary),
                       doctest::Contains("far/extra/libextra.so"), Error);
  const TemporaryDirectory folder;
  ::setenv("DTUNE_LIBRARY_PATH", folder.path().c_str(), 1);
  CHECK_THROWS_WITH_AS(find_private_library(kLibrary),
                       doctest::Contains("(build it, or set "), Error);
  write_file_atomic(folder.path() / "libextra.so", "no library", false);
  const auto found = find_private_library(kLibrary);
  CHECK(found == folder.path() / "libextra.so");
  CHECK_THROWS_WITH_AS(load_private_entry(kLibrary, found, "enter"),
                       doctest::Contains("(is extra installed?"), Error);
  ::unsetenv("DTUNE_LIBRARY_PATH");
}

TEST_CASE("a library without the entry point is refused") {
  CHECK(load_private_entry(kLibrary, "libc.so.6", "malloc") != nullptr);
  CHECK_THROWS_WITH_AS(load_private_entry(kLibrary, "libc.so.6", "enter"),
                       doctest::Contains("libc.so.6: is not dtune's library"),
                       Error);
}
