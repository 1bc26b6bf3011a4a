// The engines' own programs (sbatch, kubectl, aws), run as child processes.
#pragma once

#include <string>
#include <vector>

#include "dtune/base/clock.h"

namespace dtune {

struct ToolResult {
  int exit_code = -1;  // -1: ended by a signal
  std::string out;
  std::string err;

  bool good() const { return exit_code == 0; }
};

// Runs a program of PATH to its end; `input` goes to its stdin, where secrets
// may be: they are never in an argument or the environment. Throws
// Error(config) where there is no such program, Error(temporary) where it does
// not end in time (it is killed then).
ToolResult run_tool(const std::vector<std::string>& argv,
                    const std::string& input = "",
                    Duration patience = std::chrono::seconds(90));

// Likewise, but throws where it fails, with its own last line: Error(config),
// or Error(temporary) where the line says that trying again may help.
std::string tool_output(const std::vector<std::string>& argv,
                        const std::string& input = "");

}  // namespace dtune
