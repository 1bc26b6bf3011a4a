// `expect:` of a recipe, what turns a run into a check, and `require:`, which
// has the same form.
#pragma once

#include <vector>

#include "dtune/config/diagnostics.h"
#include "dtune/study/objective_spec.h"

namespace dtune {

// Reads `section` (expect, require): {metric: ">= 0.90"} or {metric: [">=
// 0.90", "<= 0.99"]}. `metrics`: the names that there are; empty where any is
// possible (a command).
std::vector<Expectation> read_expectations(
    const YamlNode* node, const std::string& section,
    const std::vector<std::string>& metrics, Diagnostics& diagnostics);

void write_expectations(YamlNode& recipe, const std::string& section,
                        const std::vector<Expectation>& expectations);

}  // namespace dtune
