// A store in memory, for tests that write too much for a disk.
#pragma once

#include <memory>

#include "dtune/store/trial_store.h"

namespace dtune::test {

std::unique_ptr<TrialStore> make_memory_store();

}  // namespace dtune::test
