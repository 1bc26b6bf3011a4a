#include "optuna_rows.h"

#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

namespace dtune {

using nlohmann::json;

std::vector<json> optuna_rows(const std::string& script) {
  const char* chosen = std::getenv("DTUNE_INTEROP_VENV");
  const std::string python =
      chosen != nullptr ? std::string(chosen) + "/bin/python3" : "python3";
  const std::string command =
      fmt::format("'{}' '{}'/tests/bench/{}", python, DTUNE_SOURCE_DIR, script);
  std::vector<json> rows;
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string line;
  for (int c = pipe == nullptr ? EOF : std::fgetc(pipe); c != EOF;
       c = std::fgetc(pipe)) {
    if (c != '\n') {
      line.push_back(static_cast<char>(c));
      continue;
    }
    json row = json::parse(line, nullptr, false);
    if (row.is_object()) rows.push_back(std::move(row));
    line.clear();
  }
  if (pipe != nullptr) ::pclose(pipe);
  return rows;
}

}  // namespace dtune
