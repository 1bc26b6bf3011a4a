// The sampler and the scheduler that decide by a SurrogateModel. They share
// one, so that it is fitted once.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dtune/study/tuner.h"
#include "dtune/tuner/acquisition.h"
#include "dtune/tuner/surrogate_model.h"

namespace dtune {

// Proposes the free point with the largest expected gain over the leader within
// a horizon drawn for the decision (acquisition.h), among points drawn
// uniformly, on a coarse grid and around the leader. A user's prior shifts the
// choice. The first points may be those of an opening (LearntPrior::opening).
std::unique_ptr<Sampler> make_surrogate_sampler(
    const Recipe& recipe, std::shared_ptr<SurrogateModel> model);

// Freeze-thaw (Swersky et al. 2014, arXiv 1406.3896): each time a slot is free,
// the paused trial or the sampler's new point with the largest expected gain, at
// equal cost, over the leader within the decision's horizon is trained to the
// next step of the ladder and paused again. Deviations: the horizon is drawn at
// random (acquisition.h); trials whose steps take longer than others' must
// promise more in proportion; trials of an opening are trained to their second
// look before anything is compared; with 20 steps or fewer a trial is not paused
// while its chance of beating the leader by the horizon is 10% (and `epsilon`)
// or more; a trial is cut once its chance of beating the leader by the horizon
// is below `epsilon` (option; default 0.005): "stalled" where it is as unlikely
// to get better at all, else "hopeless".
std::unique_ptr<Scheduler> make_freeze_thaw_scheduler(
    const Recipe& recipe, std::shared_ptr<SurrogateModel> model);

// Up to this horizon steps are so few that they tell little, and full trainings
// more: decisions differ.
inline constexpr int kShortHorizon = 20;
inline bool is_brief(const SurrogateModel& model) {
  return model.horizon() <= kShortHorizon;
}

// How much a user's prior weighs against the logarithm of a chance, for new
// points and paused trials alike: Hvarfner et al. 2022, "piBO", arXiv
// 2204.11051, eq. 6, with beta = 10.
double prior_weight(const Study& study);

// "trusts convlstm 71%, learnt 25%, plain 4%", with the reason where the learnt
// prior takes no part; then what limits the predictions.
std::vector<std::string> describe_model(const SurrogateModel& model);

}  // namespace dtune
