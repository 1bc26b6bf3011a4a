// dtune validate: is this a good recipe?

#include <memory>

#include "app/command.h"
#include "app/overrides.h"
#include "app/study_check.h"
#include "app/study_files.h"
#include "app/study_history.h"
#include "app/study_tuner.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/json.h"
#include "dtune/config/recipe_file.h"
#include "dtune/study/study.h"

namespace dtune {
namespace {

// Of data that are not looked at: steps of samples need some number of them.
constexpr int64_t kTypicalSamples = 60000;

struct ValidateOptions {
  std::string recipe;
  std::vector<std::string> set;
};

int validate(const Console& console, const ValidateOptions& options) {
  const auto path = find_recipe(options.recipe);
  const RecipeFile file = RecipeFile::load(path, parse_overrides(options.set));
  // The samplers' and schedulers' own options are theirs to check. Which studies
  // `warm_start: auto` finds, the run says.
  const TunerOptions tuner = asks_for_related(file.recipe())
                                 ? TunerOptions()
                                 : checked_tuner_options(file);
  checked_tuner(file, horizon_steps(file.recipe(), kTypicalSamples), tuner);
  const std::vector<Diagnostic> warnings = recipe_warnings(file);
  show_warnings(console, warnings);
  if (console.json) {
    console.line(
        json_text(nlohmann::ordered_json{{"valid", true},
                                         {"recipe", path.string()},
                                         {"study", file.recipe().study},
                                         {"search_hash", file.search_hash()},
                                         {"warnings", warning_lines(warnings)}},
                  2));
  } else {
    console.line(fmt::format("{}: ok", path.string()));
  }
  return kExitOk;
}

}  // namespace

Action declare_validate(Arguments& arguments) {
  auto options = std::make_shared<ValidateOptions>();
  arguments.describe(
      "Checks a recipe without reading its data: keys, types, ranges, the "
      "space, the files of 'points', 'warm_start' and 'surrogate', and the "
      "shapes of the layers where the data's size is known. "
      "All problems are shown at once; exit code 2 if there are any.");
  arguments.positional("RECIPE", options->recipe, "The recipe (YAML).",
                       Complete::recipe, true);
  arguments.option("--set", options->set, "KEY=VALUE",
                   "Check with this key overridden.");
  arguments.json();
  arguments.example("dtune validate recipe.yaml", "before a commit");
  return
      [options](const Console& console) { return validate(console, *options); };
}

}  // namespace dtune
