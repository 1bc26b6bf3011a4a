// What `dtune plan` shows.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "app/machine.h"

#include "dtune/config/recipe_file.h"
#include "dtune/data/prepared.h"
#include "dtune/report/text.h"
#include "dtune/study/recipe.h"

namespace dtune {

struct DataPlan {
  std::string source;  // where it was found
  Shape image;
  int classes = 0;
  int64_t training = 0;  // samples
  int64_t validation = 0;
  int64_t test = 0;
};

struct StudyPlan {
  std::string recipe_path;
  Recipe recipe;
  DataPlan data;                  // not for commands
  std::vector<LayerInfo> layers;  // not for commands
  int horizon = 1;                // steps of a full training
  std::vector<std::string> schedule;
  SlotPlan slots;
  std::filesystem::path database;
  bool database_exists = false;
};

DataPlan describe_data(const Recipe& recipe, const PreparedData& data);

// Throws Error(config) where the recipe's pipeline has more stages than its
// model has layers. Reading the recipe finds that, too, save for data whose
// shape or classes are in their files.
void check_pipeline_fits(const RecipeFile& file, size_t layers);

// Floating-point operations of training a model on one sample: forward plus
// backward, taken as three times forward.
int64_t training_flops(const std::vector<LayerInfo>& layers);

std::string plan_text(const StudyPlan& plan, const TextStyle& style);
std::string plan_json(const StudyPlan& plan);

}  // namespace dtune
