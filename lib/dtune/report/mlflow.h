// A study as a folder of MLflow's runs.
#pragma once

#include <filesystem>

#include "dtune/report/facts.h"

namespace dtune {

// Writes FOLDER/EXPERIMENT/meta.yaml and a run for each trial (meta.yaml,
// params/, metrics/, tags/), as MLflow's file store has them; `mlflow
// migrate-filestore` moves them into a database. Runs of an earlier export of
// the study are replaced; names are those of the study and "trial 7". Throws
// Error(data) where the folder cannot be made.
void write_mlflow(const Study& study, const StudyFacts& facts,
                  const std::filesystem::path& folder);

}  // namespace dtune
