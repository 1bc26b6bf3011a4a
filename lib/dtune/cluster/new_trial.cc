#include "dtune/cluster/new_trial.h"

#include <algorithm>
#include <utility>

#include "dtune/base/random.h"

namespace dtune {

Trial& add_trial(Study& study, const Directive& directive, int64_t wall_ms) {
  const TrialId id = static_cast<TrialId>(study.trials.size()) + 1;
  Trial fresh;
  fresh.id = id;
  fresh.point = directive.point;
  fresh.unit = study.recipe.space.encode(directive.point);
  fresh.seed = mix_seed({study.recipe.seed, hash_text("trial"), uint64_t(id)});
  fresh.target_step = std::clamp(directive.target_step, 1, study.horizon);
  fresh.created_ms = wall_ms;
  study.trials.push_back(std::move(fresh));
  return study.trials.back();
}

}  // namespace dtune
