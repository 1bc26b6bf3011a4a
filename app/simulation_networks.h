// The weights that `dtune simulate --prior` and `--network` judge.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtune/simulate/simulator.h"

namespace dtune {

// Makes tuners by the names in a recipe. Each task is tuned with the first of
// these networks that was trained without it (`dtune surrogate train
// --leave-out`), with the first one where none was; where no file is given, by
// the shipped one. `prior_file`, if not empty, is the learnt prior's. `epsilon`
// is the freeze-thaw scheduler's, if given. Throws Error(data): missing or
// damaged file.
MakeTuner tuners_with_weights(const std::string& prior_file,
                              const std::vector<std::string>& files,
                              std::optional<double> epsilon);

}  // namespace dtune
