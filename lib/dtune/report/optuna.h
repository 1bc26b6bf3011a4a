// A study as a storage of Optuna, with which Optuna and its dashboard go on.
#pragma once

#include <filesystem>
#include <string>

#include "dtune/report/facts.h"

namespace dtune {

// The SQLite storage of Optuna 4 and 5 (schema 12, alembic v3.2.0.a). Replaces
// the file. Throws as Database does.
//
// What is complete is COMPLETE, with its best value; paused and cut trials are
// PRUNED, with their last; what runs or waits is RUNNING, the rest is FAIL.
// User attributes of a trial: dtune:state, dtune:why, dtune:kind,
// dtune:seconds; of the study: dtune:best_trial, the number of the trial that
// is shipped, which Optuna takes for PRUNED where it was paused. Times are UTC.
void write_optuna_database(const Study& study, const StudyFacts& facts,
                           const std::filesystem::path& path);

// The same as Optuna's journal, a JSON object a line.
std::string optuna_journal(const Study& study, const StudyFacts& facts);

// What a file is to those who would write such an export in its place.
enum class OptunaFile {
  exported,   // it holds what these two functions wrote, and no more
  continued,  // Optuna has added to that: trials, notes
  foreign
};
OptunaFile look_at_optuna_file(const std::filesystem::path& path);

}  // namespace dtune
