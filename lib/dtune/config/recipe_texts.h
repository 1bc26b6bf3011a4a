// The recipes of the project's folder recipes/, built in.
#pragma once

#include <string>
#include <vector>

namespace dtune {

struct RecipeText {
  std::string kind;  // what `dtune init` calls it
  std::string text;
};

const std::vector<RecipeText>& recipe_texts();

}  // namespace dtune
