#include "dtune/submit/tool.h"

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/text.h"
#include "dtune/cluster/child_process.h"
#include "dtune/cluster/launch_failure.h"

namespace dtune {
namespace {

bool may_pass(const std::string& words) {
  return contains_any(
      words, {"timed out", "Timed out", "Unable to contact",
              "Connection refused", "connection refused", "Could not connect",
              "i/o timeout", "ThrottlingException", "temporarily"});
}

}  // namespace

ToolResult run_tool(const std::vector<std::string>& argv,
                    const std::string& input, Duration patience) {
  SpawnOptions spawn;
  spawn.argv = argv;
  spawn.feed = true;
  Child child(spawn);
  std::string_view rest = input;
  ToolResult result;
  const MonoTime until = system_clock().now() + patience;
  while (true) {
    rest.remove_prefix(child.feed(rest));
    if (rest.empty()) child.stop_feeding();
    const auto status = child.wait(std::chrono::milliseconds(20));
    child.read_out(result.out);
    child.read_err(result.err);
    if (status) {
      result.exit_code = status->exit_code;
      return result;
    }
    if (system_clock().now() >= until) {
      throw Error(ErrorKind::temporary,
                  fmt::format("{} has not answered within {} (try again later)",
                              argv[0], format_duration(patience)));
    }
  }
}

std::string tool_output(const std::vector<std::string>& argv,
                        const std::string& input) {
  const ToolResult result = run_tool(argv, input);
  if (result.good()) return result.out;
  const std::string said = last_line_of(
      result.err, last_line_of(result.out, "it failed without a message"));
  const std::string head = argv[0] + ": ";
  throw Error(may_pass(said) ? ErrorKind::temporary : ErrorKind::config,
              said.starts_with(head) ? said : head + said);
}

}  // namespace dtune
