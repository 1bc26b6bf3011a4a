// Collects what is wrong with a recipe, so that one reading tells all of it.
#pragma once

#include <string>
#include <vector>

#include "dtune/config/recipe_file.h"
#include "dtune/config/yaml_node.h"

namespace dtune {

// Where the text of a recipe came from: its file and its overrides.
struct Sources {
  std::string name;                    // of the file
  std::vector<std::string> lines;      // of the file
  std::vector<std::string> overrides;  // keys, by Mark::source - 1
  // The file was written by resolve(), with every default: no user asked for
  // what stands there, and it has been read before.
  bool stored = false;

  // Whether what stands there was written by the user now.
  bool is_fresh(const Mark& mark) const { return !stored || mark.source > 0; }

  static std::vector<std::string> split_lines(const std::string& text);
  // "recipe.yaml:14:9" or "--set train.epochs"; columns count characters.
  std::string where(const Mark& mark) const;
  // The line and a caret below the place, or "".
  std::string excerpt(const Mark& mark) const;
};

// Not thread-safe. `sources` outlives this.
class Diagnostics {
 public:
  explicit Diagnostics(const Sources& sources) : sources_(sources) {}

  const Sources& sources() const { return sources_; }
  bool empty() const { return found_.empty(); }
  // Something has been said about this very place.
  bool tells_of(const Mark& mark) const;
  void add(const Mark& mark, const std::string& message);
  // For a text that names its place itself ("where: message").
  void add(const std::string& where, const Mark& mark,
           const std::string& message);

  // Throws RecipeError if there is anything, in order of place.
  void throw_if_any();

 private:
  struct Entry {
    Mark mark;
    Diagnostic diagnostic;
  };
  const Sources& sources_;
  std::vector<Entry> found_;
};

}  // namespace dtune
