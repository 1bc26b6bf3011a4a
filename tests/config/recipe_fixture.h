// Reading recipes in a line, for the tests of config.
#pragma once

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "dtune/config/recipe_file.h"

namespace dtune {

inline RecipeFile parse(const std::string& yaml,
                        const std::vector<std::string>& sets = {}) {
  std::vector<Override> overrides;
  for (const std::string& one : sets) overrides.push_back(parse_override(one));
  return RecipeFile::parse(yaml, "r.yaml", "/recipes", overrides);
}

// "place: message" of every problem; empty if there is none.
inline std::vector<std::string> problems(
    const std::string& yaml, const std::vector<std::string>& sets = {}) {
  std::vector<std::string> found;
  try {
    parse(yaml, sets);
  } catch (const RecipeError& error) {
    CHECK(error.kind() == ErrorKind::config);
    for (const Diagnostic& one : error.diagnostics()) {
      found.push_back(one.where + ": " + one.message);
    }
  }
  return found;
}

// The one problem; the number of them if there is not one.
inline std::string problem(const std::string& yaml,
                           const std::vector<std::string>& sets = {}) {
  const std::vector<std::string> found = problems(yaml, sets);
  if (found.size() == 1) return found[0];
  std::string all = std::to_string(found.size()) + " problems";
  for (const std::string& one : found) all += "\n" + one;
  return all;
}

}  // namespace dtune
