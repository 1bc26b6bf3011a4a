// What a recipe's values must be to each other, beyond what each takes alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dtune/config/diagnostics.h"
#include "dtune/study/recipe.h"

namespace dtune {

// Reports contradictions: keys that belong to another kind, missing paths,
// layers whose shapes do not fit, ... `tree`: written out, for places.
void check_recipe(const YamlNode& tree, const Recipe& recipe,
                  Diagnostics& diagnostics);

// Reports keys that are written but have no effect. `tuned`: keys that the
// space sets (what they decide on is not known here).
void check_idle_keys(const YamlNode& tree, const Recipe& recipe,
                     const std::vector<std::string>& tuned,
                     Diagnostics& diagnostics);

// Why a model of so many layers (expand_model) cannot be cut into the stages of
// the recipe's pipeline, or nothing. A cut falls between any two of these
// layers. Says nothing where the space decides on the model.
struct StageProblem {
  std::string key;  // that is to be changed
  std::string message;
};
std::optional<StageProblem> find_stage_problem(const Recipe& recipe,
                                               size_t layers);

}  // namespace dtune
