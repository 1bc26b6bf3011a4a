// Every key of a recipe, once: its name, where it is stored, what it takes.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "dtune/config/fields.h"
#include "dtune/study/recipe.h"

namespace dtune {

// All sections but `space`, `constraints` and `expect`, whose form is their own
// (space_section.h, expect_section.h).
void describe_recipe(Fields& fields, Recipe& recipe);

// Dotted keys of all of a recipe's sections, for "did you mean".
const std::vector<std::string>& recipe_keys();

// Keys that have no effect on this recipe, with the reason ("only for kind:
// synthetic"): an error where written, left out where a recipe is resolved.
struct IdleKey {
  std::string key;
  std::string reason;
};
std::vector<IdleKey> idle_keys(const Recipe& recipe);

}  // namespace dtune
