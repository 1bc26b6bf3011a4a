#include "app/study_check.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/machine.h"
#include "app/patience.h"
#include "app/study_tuner.h"
#include <fmt/format.h>

#include "dtune/base/file.h"
#include "dtune/cluster/command_program.h"
#include "dtune/config/check.h"
#include "dtune/data/prepared.h"
#include "dtune/data/summary.h"
#include "dtune/study/command_words.h"
#include "dtune/train/plugin.h"
#include "dtune/tuner/factory.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

DataPlan describe_data(const Recipe& recipe, const PreparedData& data) {
  const bool synthetic = recipe.data.kind == DataKind::synthetic;
  DataPlan plan{.source = synthetic
                              ? fmt::format("seed {}", recipe.data.split_seed)
                              : source_path(recipe.data).string(),
                .image = data.image_shape(),
                .classes = data.classes(),
                .training = data.count(Split::train),
                .validation = data.count(Split::validation),
                .test = data.count(Split::test),
                .notes = data.notes()};
  for (std::string& warning : data_warnings(summarize(data), recipe)) {
    plan.notes.push_back(std::move(warning));
  }
  return plan;
}

// A pipeline has at most as many stages as its model has layers. Reading the
// recipe finds that, too, save for data whose shape or classes are in their
// files.
void check_pipeline_fits(const RecipeFile& file, size_t layers) {
  const auto problem = find_stage_problem(file.recipe(), layers);
  if (!problem) return;
  throw file.problem(problem->key, problem->message);
}

// The layers' shapes on the data's images. Arrays have no names for their axes,
// so a network that does not fit may be an array that is transposed.
std::vector<LayerInfo> shapes_on(const RecipeFile& file,
                                 const PreparedData& data) {
  const Recipe& recipe = file.recipe();
  const auto layers =
      expand_model(recipe.model, data.image_shape(), data.classes());
  check_pipeline_fits(file, layers.size());
  try {
    return infer_shapes(layers, data.image_shape());
  } catch (const Error& error) {
    if (recipe.data.kind != DataKind::npz) throw;
    const Shape& image = data.image_shape();
    throw Error(error.kind(),
                fmt::format("{}; the images of {} were read as [N, {}, {}, "
                            "{}]: height, width, channels (is that the order "
                            "of their axes?)",
                            error.what(), source_path(recipe.data).string(),
                            image.height, image.width, image.channels));
  }
}

std::vector<std::string> describe_warm_start(const Recipe& recipe,
                                             const TunerOptions& options) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < options.warm.size(); ++i) {
    lines.push_back(
        describe_warm_study(recipe, recipe.warm_start[i], options.warm[i]));
  }
  return lines;
}

bool trains_here(const Recipe& recipe) {
  return recipe.nodes.empty() ||
         std::any_of(recipe.nodes.begin(), recipe.nodes.end(), is_local);
}

std::string why_no_start(const Recipe& recipe) {
  return trains_here(recipe) ? why_not_startable(recipe) : "";
}

// The first level has two images of each class on average at least.
void check_levels(const RecipeFile& file, const DataPlan& data) {
  const Recipe& recipe = file.recipe();
  if (!trains_levels(recipe)) return;
  const int levels = recipe.fidelity.levels;
  const auto least = 2.0 * data.classes;
  const double first = double(data.training) * step_share(recipe, 1, levels);
  if (first >= least) return;
  const double most = 1 + std::floor(std::log2(double(data.training) / least));
  throw file.problem(
      "fidelity",
      fmt::format("step 1 of {} would train on {} images only, of {} classes "
                  "({})",
                  levels, std::llround(first), data.classes,
                  most < 2 ? "there are too few images: remove it"
                           : fmt::format("at most {} levels fit", most)));
}

}  // namespace

void check_program(const RecipeFile& file) {
  if (!is_run_by_others(file.recipe())) return;
  throw file.problem(
      "command.run",
      "'command.run' is 'none': nothing can be started (ask for its "
      "trials with 'dtune ask', or name a program)");
}

void check_startable(const RecipeFile& file) {
  const std::string no_start = why_no_start(file.recipe());
  if (no_start.empty() || !file.recipe().nodes.empty()) return;
  throw file.problem(
      "command.run",
      fmt::format("no trial could start: {} (install the program, or run the "
                  "recipe where it is now: 'dtune run RECIPE')",
                  no_start));
}

std::vector<Diagnostic> recipe_warnings(const RecipeFile& file) {
  const Recipe& recipe = file.recipe();
  std::vector<Diagnostic> warnings;
  const auto warn = [&](const char* key, const std::string& message) {
    warnings.push_back(file.problem(key, message).diagnostics().front());
  };
  const std::string no_start = why_no_start(recipe);
  if (!no_start.empty()) {
    warn("command.run",
         fmt::format("no trial could start: {} (correct 'command.run', or "
                     "install the program before the run)",
                     no_start));
  }
  const size_t points = recipe.points.size();
  const auto trials = static_cast<size_t>(recipe.budget.trials);
  if (trials > 0 && points > trials) {
    warn("points",
         fmt::format("{} points are given, but the budget ends after "
                     "{} trial{} (raise budget.trials, or leave {} "
                     "out)",
                     points, trials, trials == 1 ? "" : "s", points - trials));
  }
  return warnings;
}

void show_warnings(const Console& console,
                   const std::vector<Diagnostic>& warnings) {
  for (const Diagnostic& warning : warnings) {
    console.warning(RecipeError({warning}).what());
  }
}

std::vector<std::string> warning_lines(
    const std::vector<Diagnostic>& warnings) {
  std::vector<std::string> lines;
  lines.reserve(warnings.size());
  for (const Diagnostic& warning : warnings) {
    lines.push_back(warning.where + ": " + warning.message);
  }
  return lines;
}

void check_local_training(const Recipe& recipe) {
  if (trains_here(recipe) && !recipe.command) check_engine_installed();
}

fs::path prepare_recipe_data(const Console& console, const Recipe& recipe) {
  if (recipe.command) return {};
  const Patience patience([&console, kind = to_string(recipe.data.kind)] {
    console.notice(fmt::format(
        "reading the {} data (kept in {}, so the next run is faster)", kind,
        cache_directory().string()));
  });
  return prepare_data(recipe.data, cache_directory());
}

StudyCheck check_training(const Console& console, const RecipeFile& file,
                          bool listens) {
  const Recipe& recipe = file.recipe();
  StudyCheck check;
  check.slots = plan_slots(recipe);
  if (!listens) check_gang_fits(recipe, check.slots);
  if (!recipe.command) {
    check.prepared_data = prepare_recipe_data(console, recipe);
    const PreparedData data(check.prepared_data);
    check.data = describe_data(recipe, data);
    check.layers = shapes_on(file, data);
    check_levels(file, check.data);
  }
  check.horizon = horizon_steps(recipe, check.data.training);
  return check;
}

StudyCheck check_study(const Console& console, const RecipeFile& file,
                       bool listens) {
  StudyCheck check = check_training(console, file, listens);
  const Recipe& recipe = file.recipe();
  check.warnings = recipe_warnings(file);
  const TunerOptions options = checked_tuner_options(file);
  check.warm_start = describe_warm_start(recipe, options);
  const Tuner tuner = checked_tuner(file, check.horizon, options);
  check.schedule = tuner.scheduler->describe_plan(recipe, check.horizon);
  return check;
}

}  // namespace dtune
