// The command line of a `command:` recipe at one point of its space.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "dtune/space/value.h"

namespace dtune {

struct Recipe;  // study/recipe.h

// `run: none`: trials are asked for, and run, by others ('dtune ask').
bool is_run_by_others(const Recipe& recipe);

// The program and its arguments, every "{name}" replaced by the point's value.
// A word about a parameter that the point does not have (`when:`) is left out;
// if it is nothing but "{name}", so is an option just before it: of "--depth
// {depth}" both go. Options begin with '-' and a letter (or two '-' and more),
// and have no '='.
std::vector<std::string> command_words(const Recipe& recipe,
                                       const Point& point);

// DTUNE_PARAM_<NAME>: the name in capitals, signs that are neither letters nor
// digits as _.
std::string parameter_variable(const std::string& name);

// The point as environment variables, by parameter_variable().
std::map<std::string, std::string> point_environment(const Point& point);

}  // namespace dtune
