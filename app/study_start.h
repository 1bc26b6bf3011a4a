// The beginning of a study: from a recipe to a database that holds it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "app/study_check.h"
#include "app/study_loader.h"

namespace dtune {

// The database exists and holds a study. Throws as open_sqlite_store does.
bool holds_study(const std::filesystem::path& database);

// Makes the database of the study that `file`, read from `path` and checked
// (check_study), describes.
void create_study(const std::filesystem::path& database,
                  const std::filesystem::path& path, const RecipeFile& file,
                  const StudyCheck& check);

// What a run of a recipe does with a database.
struct RunDecision {
  enum class Kind {
    create,      // there is no study
    go_on,       // there is something left to do
    show_result  // it is finished
  };
  Kind kind = Kind::create;
  std::string text;                 // the same for people: "new", ...
  std::optional<LoadedStudy> seen;  // read-only; empty: create
};

// `dtune run` acts on it, `dtune plan` shows it. Throws as open_sqlite_store
// does for what is no database, and Error(config) for another recipe's study.
RunDecision decide_run(const std::filesystem::path& database,
                       const RecipeFile& file);

// What a recipe says now counts: keys that do not define the search may have
// changed. A changed budget is the new total, what was spent stays spent.
// Returns true if a finished study has something to do again.
bool adopt_recipe(LoadedStudy& loaded, const RecipeFile& file);

// Throws Error(config), naming the keys that differ, where the database holds
// the study of another recipe. `command`: the one that was given the recipe,
// "run" or "ask"; for "run" the error names --fresh.
void check_same_study(const LoadedStudy& loaded, const RecipeFile& file,
                      const std::string& command = "run");

}  // namespace dtune
