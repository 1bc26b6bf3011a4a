// The short forms of a recipe, written out: what users may leave out, readers
// need not know.
#pragma once

#include <string>
#include <vector>

#include "dtune/config/yaml_node.h"

namespace dtune {

// Rewrites short forms in place (`schedule: cosine` -> `schedule: {kind:
// cosine}`, `slots: 2` -> `resources: {slots: 2}`, ...). Idempotent. What it
// does not know stays, for the reader to complain about. Throws YamlProblem
// where a key is given in two forms at once.
void expand_short_forms(YamlNode& recipe);

// Where a key in its short form is kept: `slots` is `resources.slots`, `layers.x`
// is `model.layers.x`; other keys are themselves.
std::string long_key(const std::string& key);

// `warm_start: auto`: the studies that this machine has noted (the only item
// of the list, not a path).
inline constexpr const char* kRelatedStudies = "auto";

// Splits a command line as a shell does: blanks, '...', "..." and backslash; no
// variables, no globs. Throws YamlProblem (at the mark) on an open quote.
std::vector<std::string> split_command(const std::string& line, const Mark& at);

}  // namespace dtune
