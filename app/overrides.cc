#include "app/overrides.h"

#include <algorithm>

#include "dtune/base/text.h"

namespace dtune {

std::vector<Override> parse_overrides(const std::vector<std::string>& texts) {
  std::vector<Override> overrides;
  overrides.reserve(texts.size());
  for (const std::string& text : texts) {
    overrides.push_back(parse_override(text));
  }
  return overrides;
}

void declare_recipe_options(Arguments& arguments, RecipeOptions& options) {
  arguments.positional("RECIPE", options.recipe, "The recipe (YAML).",
                       Complete::recipe, true);
  arguments.option("--set", options.set, "KEY=VALUE",
                   "Override a key of the recipe, e.g. train.epochs=4; may be "
                   "given several times.");
  arguments.option("--db", options.database, "FILE",
                   "The study's database (default: beside the recipe, its "
                   "name with .db).",
                   Complete::file);
  arguments.option("--seed", options.seed, "N", "As --set seed=N.", kAnySeed);
  arguments.option("--slots", options.slots, "N",
                   "Trials at the same time (default: one per GPU, else one "
                   "per core).");
  arguments.option("--trials", options.trials, "N",
                   "Budget: as --set budget.trials=N.");
  arguments.option("--time", options.time, "TIME",
                   "Budget: as --set budget.time=TIME, e.g. 90s, 10m, 1h30m.");
  arguments.flag("--deterministic", options.deterministic,
                 "Same seed, same slots, same machine: the same decisions and "
                 "metrics to the last bit (somewhat slower).");
}

std::vector<Override> overrides_of(const RecipeOptions& options) {
  std::vector<Override> overrides = parse_overrides(options.set);
  const auto number = [&](const char* key, std::optional<uint64_t> value) {
    if (value) overrides.push_back({key, std::to_string(*value)});
  };
  number("seed", options.seed);
  number("resources.slots", options.slots);
  number("budget.trials", options.trials);
  if (!options.time.empty()) {
    overrides.push_back({"budget.time", options.time});
  }
  if (options.deterministic) overrides.push_back({"deterministic", "true"});
  return overrides;
}

std::vector<std::string> split_list(const std::vector<std::string>& texts) {
  std::vector<std::string> words;
  for (const std::string& text : texts) {
    for (std::string& word : split_list(text)) words.push_back(std::move(word));
  }
  return words;
}

}  // namespace dtune
