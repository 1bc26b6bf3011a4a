#include "dtune/submit/tool.h"

#include <string_view>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/cluster/child_process.h"

namespace dtune {
namespace {

bool may_pass(const std::string& words) {
  for (const char* sign :
       {"timed out", "Timed out", "Unable to contact", "Connection refused",
        "connection refused", "Could not connect", "i/o timeout",
        "ThrottlingException", "temporarily"}) {
    if (words.find(sign) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

std::string last_line_of(const std::string& text,
                         const std::string& otherwise) {
  const size_t last = text.find_last_not_of(" \n\r\t");
  if (last == std::string::npos) return otherwise;
  const size_t before = text.rfind('\n', last);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  return text.substr(begin, last + 1 - begin);
}

ToolResult run_tool(const std::vector<std::string>& argv,
                    const std::string& input, Duration patience) {
  SpawnOptions spawn;
  spawn.argv = argv;
  spawn.feed = true;
  Child child(spawn);
  child.feed(input);
  child.stop_feeding();
  ToolResult result;
  const MonoTime until = system_clock().now() + patience;
  while (true) {
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
      result.err, last_line_of(result.out, "it failed without a word"));
  throw Error(may_pass(said) ? ErrorKind::temporary : ErrorKind::config,
              fmt::format("{}: {}", argv[0], said));
}

}  // namespace dtune
