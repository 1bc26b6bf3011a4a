// What this program was made from (`dtune --version --json`).
#pragma once

#include <string>

namespace dtune {

// {"version", "commit", "compiler", "libtorch", "schema"}: commit and libtorch
// are null where they are not known, or the build does without LibTorch;
// schema is that of the databases that it writes.
std::string version_json();

}  // namespace dtune
