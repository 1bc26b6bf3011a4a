// What `dtune plan` shows.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/plan_time.h"
#include "app/study_check.h"

#include "dtune/report/text.h"
#include "dtune/study/recipe.h"

namespace dtune {

struct StudyPlan {
  std::string recipe_path;
  Recipe recipe;
  StudyCheck check;
  std::filesystem::path database;
  bool database_exists = false;
  std::string what_run_does;  // with the database: "new", ...
  std::optional<StepTime> step_time;
};

// Floating-point operations of training a model on one sample: forward plus
// backward, taken as three times forward.
int64_t training_flops(const std::vector<LayerInfo>& layers);

std::string plan_text(const StudyPlan& plan, const TextStyle& style);
std::string plan_json(const StudyPlan& plan);

}  // namespace dtune
