// A study of Optuna as a warm start for one of dtune.
#pragma once

#include <string>

#include "dtune/report/optuna_storage.h"

namespace dtune {

struct OptunaImport {
  std::string table;   // CSV for `warm_start:`
  std::string recipe;  // YAML: the same space and objective, with that table
  int trials = 0;      // of the study
  int results = 0;     // of them with a result
  // Parameters and metrics whose names a recipe does not allow: "old -> new".
  std::vector<std::string> renamed;
  // Parameters that not all results have: "mom: when opt == 'sgd'".
  std::vector<std::string> conditions;
  // Those for which no condition is found: results without one count not in a
  // warm start until the recipe has it.
  std::vector<std::string> unexplained;
};

// Complete and pruned trials that have a value are results. Where trials have
// intermediate values, each is a curve, whose last value is the trial's own
// where it is complete; steps that begin at 0 or below begin at 1. The space is
// the union of the distributions of all trials, with the conditions that the
// results show (find_optuna_condition); final trainings of a study that
// dtune exported are left out. The recipe calls the table
// `table_file`. Throws Error(data) where the study has several objectives, or
// no result at all.
OptunaImport import_optuna(const OptunaStudy& study,
                           const std::string& table_file);

}  // namespace dtune
