// What `dtune plan` and `dtune run` find out about a recipe before anything is
// trained or written: both by these checks, so that neither lets pass what the
// other refuses.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "app/console.h"
#include "app/machine.h"

#include "dtune/config/recipe_file.h"
#include "dtune/study/layers.h"

namespace dtune {

struct DataPlan {
  std::string source;  // where it was found
  Shape image;
  int classes = 0;
  int64_t training = 0;  // samples
  int64_t validation = 0;
  int64_t test = 0;
  // How the source was read, and what weakens the results: sentences.
  std::vector<std::string> notes;
};

struct StudyCheck {
  std::filesystem::path prepared_data;  // "" for commands
  DataPlan data;                        // not for commands
  std::vector<LayerInfo> layers;        // not for commands
  int horizon = 1;                      // steps of a full training
  SlotPlan slots;
  std::vector<std::string> warm_start;  // describe_warm_study(), one a study
  std::vector<std::string> schedule;    // what the scheduler plans: lines
  std::vector<Diagnostic> warnings;     // recipe_warnings()
};

// What is likely to be a mistake, though a run can begin: a program that this
// machine cannot start, points that the budget does not reach.
std::vector<Diagnostic> recipe_warnings(const RecipeFile& file);

// On stderr, each with its line of the recipe.
void show_warnings(const Console& console,
                   const std::vector<Diagnostic>& warnings);
// "recipe.yaml:3:9: ...", for JSON.
std::vector<std::string> warning_lines(const std::vector<Diagnostic>& warnings);

// Throws Error(config) where the recipe has no program to run: its trials are
// run by the program that asks for them.
void check_program(const RecipeFile& file);

// Throws Error(config) where trials run on this machine alone, and it cannot
// start the program of a study that is there.
void check_startable(const RecipeFile& file);

// Throws Error(study) where networks are trained on this machine, too, and the
// library that trains them is not installed.
void check_local_training(const Recipe& recipe);

// Prepares the data of a recipe in the cache folder; "" for commands. Says so
// where it takes long. Throws Error(data).
std::filesystem::path prepare_recipe_data(const Console& console,
                                          const Recipe& recipe);

// What training needs: data, model, slots; not the tuner. `listens`: machines
// that join later may bring the slots that this one lacks. Throws Error(data)
// and Error(config).
StudyCheck check_training(const Console& console, const RecipeFile& file,
                          bool listens);

// The same and the tuner with its warm start.
StudyCheck check_study(const Console& console, const RecipeFile& file,
                       bool listens);

}  // namespace dtune
