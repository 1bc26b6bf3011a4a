#include "dtune/study/slots.h"

#include <algorithm>

#include "dtune/base/text.h"
#include "dtune/study/recipe.h"
#include "dtune/study/study.h"

namespace dtune {

std::optional<int> parse_fused(const std::string& word) {
  if (word == "auto") return 0;
  if (word == "off") return 1;
  const auto number = parse_number<int>(word);
  const bool good = number && *number > 1 && *number <= kMostFused;
  return good ? number : std::nullopt;
}

std::string fused_word(int fused) {
  if (fused == 0) return "auto";
  return fused == 1 ? "off" : std::to_string(fused);
}

bool may_fuse(const Recipe& recipe) {
  // The precision of products is a setting of the whole process.
  const auto& parameters = recipe.space.parameters();
  const bool tunes_precision = std::any_of(
      parameters.begin(), parameters.end(), [](const Parameter& parameter) {
        return parameter.key == "train.precision";
      });
  return !recipe.command && !recipe.deterministic && !tunes_precision &&
         recipe.parallel.mode == ParallelMode::none && !trains_levels(recipe);
}

}  // namespace dtune
