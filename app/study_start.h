// The beginning of a study: from a recipe to a database that holds it.
#pragma once

#include <filesystem>

#include "app/console.h"
#include "app/study_loader.h"

namespace dtune {

// The database exists and holds a study. Throws as open_sqlite_store does.
bool holds_study(const std::filesystem::path& database);

// Makes the database of the study that `file`, read from `path`, describes.
// Prepares the data, to know how many steps a full training has. Throws as
// tuner_of does, before anything is written.
void create_study(const Console& console, const std::filesystem::path& database,
                  const std::filesystem::path& path, const RecipeFile& file);

// Throws Error(config), naming the keys that differ, where the database holds
// the study of another recipe.
void check_same_study(const LoadedStudy& loaded, const RecipeFile& file);

}  // namespace dtune
