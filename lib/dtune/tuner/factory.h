// Samplers and schedulers by name: the one table of each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dtune/study/tuner.h"
#include "dtune/tuner/warm_start.h"

namespace dtune {

class ConvLstm;
class LearntPrior;

struct NamedKind {
  std::string name;
  std::string summary;               // one line for docs
  std::vector<std::string> options;  // keys beside `kind`
};

const std::vector<NamedKind>& sampler_kinds();
const std::vector<NamedKind>& scheduler_kinds();

// What tuners may use beside the recipe.
struct TunerOptions {
  // Null: what is shipped with the program.
  std::shared_ptr<const LearntPrior> prior;
  std::shared_ptr<const ConvLstm> network;
  bool without_network = false;
  // Recorded data sets that the prior is not to know.
  std::vector<std::string> leave_out;
  // What Recipe::warm_start names, read by the caller.
  std::vector<WarmStudy> warm;
};

struct Tuner {
  std::unique_ptr<Sampler> sampler;
  std::unique_ptr<Scheduler> scheduler;
};

// What the recipe names; a sampler and a scheduler that decide by the surrogate
// share one. Throws Error(config): unknown kind or option (with "did you
// mean"), an option out of range, a sampler that does not fit the space (grid
// over reals without `points`), a warm start for a pair that models nothing or
// from a study of another objective.
Tuner make_tuner(const Recipe& recipe, int horizon,
                 const TunerOptions& options = {});

// One of them alone. `horizon` matters to samplers that model curves.
std::unique_ptr<Sampler> make_sampler(const Recipe& recipe,
                                      int horizon = kOpenHorizon);
std::unique_ptr<Scheduler> make_scheduler(const Recipe& recipe, int horizon);

}  // namespace dtune
