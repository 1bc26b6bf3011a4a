// What Optuna does of a benchmark, where Python has it.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace dtune {

// One JSON object a line of what tests/bench/`script` prints; none where Python
// or Optuna is missing. Python is that of DTUNE_INTEROP_VENV if it is set. May
// take minutes.
std::vector<nlohmann::json> optuna_rows(const std::string& script);

}  // namespace dtune
