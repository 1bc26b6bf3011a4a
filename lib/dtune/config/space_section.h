// `space:` and `constraints:` of a recipe.
#pragma once

#include <string>
#include <vector>

#include "dtune/config/diagnostics.h"
#include "dtune/study/recipe.h"

namespace dtune {

// Moves the lines of `space:` that are plain values to the keys that they fix.
// A name that a condition, a constraint or a program reads stays, as a choice
// of one. Works on a written-out tree.
void fix_parameters(YamlNode& recipe, Diagnostics& diagnostics);

// The space of a recipe whose plain values were moved: its own lines, and the
// default cube (lr, l2, dropout) where these are neither tuned by another line
// nor given a value. `described` is the recipe as read from the same tree.
SearchSpace read_space(const YamlNode& recipe, const Recipe& described,
                       Diagnostics& diagnostics);

// `space` and `constraints` of a resolved recipe.
void write_space(YamlNode& recipe, const SearchSpace& space);

// The key that a parameter of this name sets unless it says: train.lr of lr,
// its own name of a dotted one, else "".
std::string default_key(const std::string& name);

}  // namespace dtune
