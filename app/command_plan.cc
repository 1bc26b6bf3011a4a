// dtune plan: what a recipe would run, before anything is spent.

#include <memory>

#include "app/command.h"
#include "app/overrides.h"
#include "app/plan.h"
#include "app/study_history.h"
#include "app/study_start.h"
#include <fmt/format.h>

namespace dtune {
namespace {

namespace fs = std::filesystem;

struct PlanOptions : RecipeOptions {
  bool measure = false;
};

// What `dtune run` would do with the database, by the run's own decision; the
// step time of a study that it would go on with.
void look_at_database(const RecipeFile& file, StudyPlan& plan) {
  try {
    const RunDecision decision = decide_run(plan.database, file);
    plan.what_run_does = decision.text;
    if (decision.seen) plan.step_time = step_time_of(decision.seen->study);
  } catch (const Error& error) {
    plan.what_run_does = fmt::format("a run is refused: {}", error.what());
  }
}

StudyPlan make_plan(const Console& console, const PlanOptions& options) {
  StudyPlan plan;
  const fs::path path = find_recipe(options.recipe);
  plan.database = options.database.empty() ? default_database(path).path
                                           : fs::path(options.database);
  const RecipeFile file =
      load_for_study(path, overrides_of(options), plan.database);
  plan.recipe_path = path.string();
  plan.recipe = file.recipe();
  plan.check = check_study(console, file, false);
  plan.database_exists = fs::exists(plan.database);
  look_at_database(file, plan);
  if (options.measure) plan.step_time = measure_step(file, plan.check);
  return plan;
}

int show_plan(const Console& console, const PlanOptions& options) {
  const StudyPlan plan = make_plan(console, options);
  show_warnings(console, plan.check.warnings);
  console.print(console.json ? plan_json(plan)
                             : plan_text(plan, style_of(console)));
  return kExitOk;
}

}  // namespace

Action declare_plan(Arguments& arguments) {
  auto options = std::make_shared<PlanOptions>();
  arguments.describe(
      "Shows what 'dtune run' would do: the data, the model's layers, the "
      "search space, the scheduler's plan, budget, slots and time, and what "
      "the run would do with a database that exists. Makes the same checks as "
      "'dtune run'; trains nothing without --measure.");
  declare_recipe_options(arguments, *options);
  arguments.flag("--measure", options->measure,
                 "Train for up to ten seconds and say how long the study "
                 "takes.");
  arguments.json();
  arguments.example("dtune plan recipe.yaml", "before an expensive run");
  arguments.example("dtune plan recipe.yaml --measure", "minutes, not FLOPs");
  arguments.example("dtune plan recipe.yaml --set model.arch=resnet18",
                    "what another model would cost");
  return [options](const Console& console) {
    return show_plan(console, *options);
  };
}

}  // namespace dtune
