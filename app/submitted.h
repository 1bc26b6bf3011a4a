// Studies that were given to an engine (dtune submit), by the names that users
// give.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/console.h"

#include "dtune/submit/submission.h"

namespace dtune {

// By the name that dtune submit printed, or by a recipe or database whose study
// was submitted last. Throws Error(config) where there is none.
Submission need_submission(const std::string& name);

// What the engine says of a study that was submitted under that name; shows the
// study's status through the engine where its database is out of reach, and
// returns the exit code then. Empty: `name` now means the database, if any.
std::optional<int> show_submitted(const Console& console, std::string& name);

// This process becomes another program. Throws Error(config) where there is no
// such program.
[[noreturn]] void become(const std::vector<std::string>& argv);

}  // namespace dtune
