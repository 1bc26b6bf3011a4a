// Options of several commands: those that override a recipe, and lists.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/arguments.h"

#include "dtune/config/recipe_file.h"

namespace dtune {

// Throws Error(config) for a text without '='.
std::vector<Override> parse_overrides(const std::vector<std::string>& texts);

// The recipe and what overrides it on the command line.
struct RecipeOptions {
  std::string recipe;
  std::string database;
  std::vector<std::string> set;
  std::optional<uint64_t> seed;
  std::optional<uint64_t> slots;
  std::optional<uint64_t> trials;
  std::string time;
  bool deterministic = false;
};

// Declares them; `options` must outlive the parse.
void declare_recipe_options(Arguments& arguments, RecipeOptions& options);

// What they mean as recipe keys: --set first, then the shortcuts. Throws
// Error(config) for a --set without '='.
std::vector<Override> overrides_of(const RecipeOptions& options);

// "a,b" "c" -> a b c.
std::vector<std::string> split_list(const std::vector<std::string>& texts);

}  // namespace dtune
