// What the checks of a recipe share.
#pragma once

#include <string>

#include "dtune/config/diagnostics.h"
#include "dtune/config/path.h"
#include "dtune/study/recipe.h"

namespace dtune {

// All of these outlive it.
struct CheckContext {
  const YamlNode& tree;
  const Recipe& recipe;
  Diagnostics& diagnostics;

  // Whether what stands at the key was written now.
  bool is_fresh(const std::string& key) const {
    return diagnostics.sources().is_fresh(mark_of_path(tree, key));
  }
  // What stands at the key was not understood; the recipe has a default there.
  bool is_misread(const std::string& key) const {
    const YamlNode* found = find_path(tree, key);
    return found != nullptr && diagnostics.tells_of(found->mark);
  }
  void complain(const std::string& key, const std::string& message) const {
    diagnostics.add(mark_of_path(tree, key), message);
  }
};

// Of a recipe that tunes a program.
void check_command(const CheckContext& c);
// Of one that trains a network.
void check_training(const CheckContext& c);
void check_model(const CheckContext& c);

}  // namespace dtune
