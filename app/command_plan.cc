// dtune plan: what a recipe would run, before anything is spent.

#include <memory>

#include "app/command.h"
#include "app/machine.h"
#include "app/overrides.h"
#include "app/plan.h"
#include "app/study_run.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/data/prepared.h"
#include "dtune/tuner/factory.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

struct PlanOptions {
  std::string recipe;
  std::vector<std::string> set;
  std::string database;
  bool json = false;
};

StudyPlan make_plan(const Console& console, const PlanOptions& options) {
  StudyPlan plan;
  const fs::path path = find_recipe(options.recipe);
  const RecipeFile file = RecipeFile::load(path, parse_overrides(options.set));
  plan.recipe_path = path.string();
  plan.recipe = file.recipe();
  plan.slots = plan_slots(plan.recipe);
  check_gang_fits(plan.recipe, plan.slots);
  plan.database = options.database.empty() ? default_database(path).path
                                           : fs::path(options.database);
  plan.database_exists = fs::exists(plan.database);
  if (!plan.recipe.command) {
    const PreparedData data(prepare_recipe_data(console, plan.recipe));
    plan.data = describe_data(plan.recipe, data);
    const auto layers =
        expand_model(plan.recipe.model, data.image_shape(), data.classes());
    check_pipeline_fits(file, layers.size());
    plan.layers = infer_shapes(layers, data.image_shape());
  }
  plan.horizon = horizon_steps(plan.recipe, plan.data.training);
  make_sampler(plan.recipe);  // checks its options
  plan.schedule = make_scheduler(plan.recipe, plan.horizon)
                      ->describe_plan(plan.recipe, plan.horizon);
  return plan;
}

int show_plan(const Console& console, const PlanOptions& options) {
  const StudyPlan plan = make_plan(console, options);
  console.print(console.json ? plan_json(plan)
                             : plan_text(plan, style_of(console)));
  return kExitOk;
}

}  // namespace

Action declare_plan(Arguments& arguments) {
  auto options = std::make_shared<PlanOptions>();
  arguments.describe(
      "Shows what 'dtune run' would do: the data, the model's layers, the "
      "search space, the scheduler's plan, budget and slots. Trains nothing.");
  arguments.positional("RECIPE", options->recipe, "The recipe (YAML).",
                       Complete::recipe, true);
  arguments.option("--set", options->set, "KEY=VALUE",
                   "Override a key of the recipe.");
  arguments.option("--db", options->database, "FILE",
                   "The database that the run would use.", Complete::file);
  arguments.flag("--json", options->json, "As JSON.");
  arguments.example("dtune plan recipe.yaml", "before an expensive run");
  arguments.example("dtune plan recipe.yaml --set model.arch=resnet18",
                    "what another model would cost");
  return [options](const Console& console) {
    return show_plan(console, *options);
  };
}

}  // namespace dtune
