#include "dtune/tuner/model_sampler.h"

#include "dtune/tuner/samplers.h"

namespace dtune {
namespace {

Recipe sobol_recipe(const Recipe& recipe) {
  Recipe copy = recipe;
  copy.sampler = {"sobol", {}};
  return copy;
}

}  // namespace

ModelSampler::ModelSampler(const Recipe& recipe, int startup)
    : sobol_(make_sobol_sampler(sobol_recipe(recipe))), startup_(startup) {}

std::optional<Sampler::Proposal> ModelSampler::propose(const Study& study,
                                                       int64_t decision) {
  taken_.update(study);
  const int64_t proposals = taken_.proposals();
  const Evidence evidence = gather_evidence(study);
  if (proposals < startup_ || !evidence.varied ||
      study.recipe.space.dimensions() == 0) {
    return sobol_->propose(study, decision);
  }
  auto proposal = propose_by_model(study, evidence, uint64_t(proposals));
  return proposal ? proposal : sobol_->propose(study, decision);
}

}  // namespace dtune
