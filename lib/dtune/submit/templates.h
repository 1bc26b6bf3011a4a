// The templates of this folder's templates/, built in.
#pragma once

#include <string>

#include "dtune/submit/template.h"

namespace dtune {

// "slurm.sh". REQUIRES: there is one of that name.
Template built_in_template(const std::string& name);

}  // namespace dtune
