// Which studies ended on this machine, so that `warm_start: auto` finds those
// that a new one can learn from.
//
// One text file, dtune/studies in the cache folder: the paths of databases, one
// a line, the latest last. Nothing else is kept, and nothing leaves the
// machine. DTUNE_HISTORY=off in the environment: no study is noted or found.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dtune/config/recipe_file.h"

namespace dtune {

// Notes a study that ended; a list that cannot be written stays as it is.
// Several processes may do so at once.
void remember_study(const std::filesystem::path& database);

// `warm_start: auto`.
bool asks_for_related(const Recipe& recipe);

// Databases of noted studies that a study of this recipe can start from, the
// most alike first, at most three: they have the same metric and goal, train
// the same kind of thing (networks, or the same program), share at least half
// of the parameters of both, and have results at points of the new space.
// Alike: the same data, network, optimizer, schedule or command. `own` is left
// out, and what cannot be read.
std::vector<std::string> related_studies(const Recipe& recipe,
                                         const std::filesystem::path& own);

// A recipe as RecipeFile::load reads it, for the study in `database`: `auto`
// gives way to the databases that this study began with or, where there is none
// (or it is to be begun anew), to related_studies(). So every later decision
// and replay uses the same ones.
RecipeFile load_for_study(const std::filesystem::path& path,
                          std::vector<Override> overrides,
                          const std::filesystem::path& database,
                          bool anew = false);

}  // namespace dtune
