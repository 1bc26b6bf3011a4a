// Groups whose ranks are threads of the test.
#pragma once

#include <memory>
#include <vector>

#include "dtune/comm/collective.h"

namespace dtune {

// All ranks of a group.
std::vector<std::unique_ptr<Collective>> make_local_groups(int size);

}  // namespace dtune
