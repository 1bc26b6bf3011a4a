// `--set key=value` of several commands.
#pragma once

#include <string>
#include <vector>

#include "dtune/config/recipe_file.h"

namespace dtune {

// Throws Error(config) for a text without '='.
std::vector<Override> parse_overrides(const std::vector<std::string>& texts);

}  // namespace dtune
