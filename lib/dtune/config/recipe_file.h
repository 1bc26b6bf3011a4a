// YAML -> Recipe. Every message names file:line:column, shows the line with a
// caret, says what is wrong, and what to do.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dtune/study/recipe.h"

namespace dtune {

struct Document;  // config/document.h

// One problem of a recipe.
struct Diagnostic {
  std::string where;    // "recipe.yaml:14:9" or "--set train.epochs"
  std::string message;  // "unknown key 'lerning_rate', did you mean 'lr'?"
  std::string excerpt;  // the line and, below it, a caret; or ""
};

// All problems found in one reading; what() joins them.
class RecipeError : public Error {
 public:
  explicit RecipeError(std::vector<Diagnostic> diagnostics);
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

// `train.epochs=4`; the value is read as YAML.
struct Override {
  std::string key;
  std::string value;
};
// Throws Error(config) if there is no '=' in the text.
Override parse_override(const std::string& text);

// A recipe with the text it came from. Value type.
class RecipeFile {
 public:
  // Reads, applies the overrides, checks everything that can be checked
  // without the data: keys, types, ranges, the space, layer shapes where the
  // data kind tells the input's shape. Throws RecipeError.
  static RecipeFile load(const std::filesystem::path& path,
                         const std::vector<Override>& overrides = {});
  // `name` stands in messages; relative paths start at `directory`.
  static RecipeFile parse(const std::string& yaml, const std::string& name,
                          const std::filesystem::path& directory,
                          const std::vector<Override>& overrides = {});

  // What resolved_yaml() wrote, read again. As a person wrote none of its
  // defaults, those that no longer have an effect beside the overrides are no
  // mistake; and what an older version let pass is still read.
  static RecipeFile parse_stored(const std::string& yaml,
                                 const std::string& name,
                                 const std::filesystem::path& directory,
                                 const std::vector<Override>& overrides = {});

  const Recipe& recipe() const { return recipe_; }

  // A problem that was found after reading, at the place of a dotted key
  // ("recipe.yaml:12:9", "--set sampler.kind"), or of the section around it.
  RecipeError problem(const std::string& key, const std::string& message) const;

  // The recipe of one trial: the point's values written to their keys, then
  // read and checked like a file. Its space is empty, save that a command keeps
  // its own (it names what the program gets). Throws RecipeError (an invalid
  // trial).
  TrialRecipe with_point(const Point& point) const;

  // YAML that parses to the same recipe anywhere: overrides applied, paths
  // absolute. What the database and the model's folder keep.
  std::string resolved_yaml() const;

  // What defines the search: all of resolved_yaml() but budgets, slots, limits,
  // final, expect and the study's name. Paths inside the recipe's folder are
  // relative to it: a recipe that was moved with what it names is the same.
  std::string search_yaml() const;
  // Equal where search_yaml() is; 16 hex digits.
  std::string search_hash() const;

 private:
  explicit RecipeFile(std::shared_ptr<const Document> document);

  std::shared_ptr<const Document> document_;
  Recipe recipe_;
};

// Keys (dotted) whose values differ between two resolved recipes.
std::vector<std::string> changed_keys(const std::string& old_yaml,
                                      const std::string& new_yaml);

// The commented recipe that `dtune init` writes. `kind`: "fashion-mnist",
// "folder", "npz", "command", ...; throws Error(config) with "did you mean".
std::string recipe_template(const std::string& kind);
std::vector<std::string> recipe_template_kinds();

}  // namespace dtune
