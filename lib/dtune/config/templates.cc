#include <fmt/format.h>

#include "dtune/base/suggest.h"
#include "dtune/config/recipe_file.h"
#include "dtune/config/recipe_texts.h"

namespace dtune {

std::vector<std::string> recipe_template_kinds() {
  std::vector<std::string> kinds;
  for (const RecipeText& one : recipe_texts()) kinds.push_back(one.kind);
  return kinds;
}

std::string recipe_template(const std::string& kind) {
  std::string list;
  for (const RecipeText& one : recipe_texts()) {
    if (one.kind == kind) return one.text;
    list += (list.empty() ? "" : ", ") + one.kind;
  }
  throw Error(ErrorKind::config,
              fmt::format("no recipe is called '{}'{} (there are {})", kind,
                          did_you_mean(kind, recipe_template_kinds()), list));
}

}  // namespace dtune
