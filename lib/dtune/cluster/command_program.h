// Whether this machine can start the program of a `command:`.
#pragma once

#include <string>

namespace dtune {

struct Recipe;

// Why it cannot, as a clause: "there is no /home/me/train.sh". "" where it can,
// where a parameter chooses the program, and where others run the trials. Looks
// where a trial's start does: in PATH, or from the trial's folder. The answer is
// that of this moment.
std::string why_not_startable(const Recipe& recipe);

}  // namespace dtune
