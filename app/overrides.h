// Options of several commands: `--set key=value`, and lists.
#pragma once

#include <string>
#include <vector>

#include "dtune/config/recipe_file.h"

namespace dtune {

// Throws Error(config) for a text without '='.
std::vector<Override> parse_overrides(const std::vector<std::string>& texts);

// "a,b" "c" -> a b c.
std::vector<std::string> split_list(const std::vector<std::string>& texts);

}  // namespace dtune
