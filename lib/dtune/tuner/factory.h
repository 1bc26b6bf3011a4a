// Samplers and schedulers by name: the one table of each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dtune/study/tuner.h"

namespace dtune {

struct NamedKind {
  std::string name;
  std::string summary;  // one line for --help and docs
};

const std::vector<NamedKind>& sampler_kinds();
const std::vector<NamedKind>& scheduler_kinds();

// Throw Error(config): unknown kind or option (with "did you mean"), an option
// out of range, a sampler that does not fit the space (grid over reals without
// `points`).
std::unique_ptr<Sampler> make_sampler(const Recipe& recipe);
std::unique_ptr<Scheduler> make_scheduler(const Recipe& recipe, int horizon);

}  // namespace dtune
