#include "dtune/submit/tool.h"

#include <doctest/doctest.h>

#include "dtune/base/error.h"

using namespace dtune;  // NOLINT: a test

namespace {

ErrorKind tool_error(const std::string& script, std::string& text) {
  try {
    tool_output({"sh", "-c", script});
  } catch (const Error& error) {
    text = error.what();
    return error.kind();
  }
  return ErrorKind::internal;
}

}  // namespace

TEST_CASE("a tool's input comes through stdin") {
  const ToolResult said =
      run_tool({"sh", "-c", "cat; echo why >&2; exit 3"}, "a secret\n");
  CHECK(said.out == "a secret\n");
  CHECK(said.err == "why\n");
  CHECK(said.exit_code == 3);
}

TEST_CASE("a long input arrives whole") {
  CHECK(run_tool({"wc", "-c"}, std::string(2'000'000, 'x')).out == "2000000\n");
  CHECK(run_tool({"true"}, std::string(2'000'000, 'x')).good());
}

TEST_CASE("a tool that fails is quoted") {
  std::string text;
  CHECK(tool_error("echo a >&2; echo 'invalid partition' >&2; exit 1", text) ==
        ErrorKind::config);
  CHECK(text == "sh: invalid partition");
  CHECK(tool_error("echo 'sh: fatal: no way' >&2; exit 1", text) ==
        ErrorKind::config);
  CHECK(text == "sh: fatal: no way");
  CHECK(tool_error("echo 'Unable to contact slurm controller' >&2; exit 1",
                   text) == ErrorKind::temporary);
  CHECK(tool_error("exit 1", text) == ErrorKind::config);
  CHECK(text == "sh: it failed without a message");
}

TEST_CASE("a tool that is not there, or does not end") {
  CHECK_THROWS_AS(run_tool({"no-such-tool-here"}), Error);
  CHECK_THROWS_WITH_AS(
      run_tool({"sleep", "100"}, "", std::chrono::milliseconds(50)),
      "sleep has not answered within 50ms (try again later)", Error);
}
