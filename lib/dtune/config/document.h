// A recipe between text and type: the written-out tree and where it came from.
// Immutable once loaded; shared by the copies of a RecipeFile.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dtune/config/diagnostics.h"
#include "dtune/study/recipe.h"

namespace dtune {

struct Document {
  Sources sources;
  std::filesystem::path directory;  // absolute; relative paths start here
  YamlNode tree;                    // written out, overrides applied
};

// Parses, applies the overrides, writes out. Throws RecipeError.
Document read_document(const std::string& yaml, const std::string& name,
                       const std::filesystem::path& directory,
                       const std::vector<Override>& overrides);

// The whole recipe of a document, checked. Throws RecipeError.
Recipe read_recipe(const Document& document);

// The recipe of one point: values in their keys, no space left (a command keeps
// its space: it names what the program gets). Throws RecipeError.
Recipe read_point(const Document& document, const SearchSpace& space,
                  const Point& point);

// The paths in a recipe that name files and folders: the data, earlier studies,
// weights, where a program runs.
std::vector<std::string*> paths_of(Recipe& recipe);

// The canonical tree of a recipe: every key that has an effect and is not
// tuned, then space, constraints and expectations.
YamlNode resolve(const Recipe& recipe);

}  // namespace dtune
