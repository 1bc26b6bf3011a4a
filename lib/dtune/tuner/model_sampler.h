// What samplers that fit a model to the outcomes have in common: before there
// is enough to fit, and where the model has nothing to propose, the points of a
// Sobol sampler.
#pragma once

#include <memory>

#include "dtune/study/tuner.h"
#include "dtune/tuner/candidates.h"
#include "dtune/tuner/evidence.h"

namespace dtune {

class ModelSampler : public Sampler {
 public:
  std::optional<Proposal> propose(const Study& study, int64_t decision) final;

 protected:
  // Of the study that propose() was given.
  const TakenPoints& taken() const { return taken_; }

  // `startup`: proposals before the model is asked; options are not looked at.
  ModelSampler(const Recipe& recipe, int startup);

 private:
  // A free point, keyed on the number of proposals so far. Asked only with
  // outcomes that differ, in a space that has parameters.
  virtual std::optional<Proposal> propose_by_model(
      const Study& study, const Evidence& evidence,
      uint64_t proposals) const = 0;

  std::unique_ptr<Sampler> sobol_;
  int startup_;
  TakenPoints taken_;
};

}  // namespace dtune
