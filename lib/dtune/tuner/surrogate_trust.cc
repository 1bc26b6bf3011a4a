// SurrogateModel: how much each member is trusted.
#include <algorithm>
#include <cmath>

#include "dtune/tuner/surrogate_model.h"
#include "dtune/tuner/surrogate_state.h"

namespace dtune {
namespace {

// The network's part: later, choices are finer than its grid, and the learnt
// process alone finds better points (mean regret on 17 tasks after 4, 8, 12, 20
// trainings .086 .022 .013 .009 against .096 .030 .022 .011 with the network to
// the end, an earlier one), however much better the network predicts at large.
constexpr size_t kNetworkObservations = 30;

// Trust: what a report counts, and how fast it is forgotten.
constexpr double kFade = 0.98;
// Of a density that is flat over the metric: one surprise must not end trust.
constexpr double kSurpriseShare = 0.02;

}  // namespace

void SurrogateModel::score(const ProcessObservation& observation) {
  for (SurrogateMember& member : members_) {
    if (!takes_part(member)) continue;
    const FreezeThawProcess& process = processes_[member.process];
    const Gaussian g = process.predict({&observation.input, 1}).front();
    const double noise = process.noise();
    const double deviation = std::sqrt(g.variance + noise * noise);
    const Correction c =
        member.corrected ? seen_answer().at(observation.input) : kHeavyTails;
    const double z = process.warp()(observation.value);
    const double density = log_density(c, (z - g.mean) / deviation) -
                           std::log(deviation) +
                           process.warp().log_slope(observation.value);
    count_towards(member, density);
  }
}

// `log_density` of a value by the member, before it came.
void SurrogateModel::count_towards(SurrogateMember& member,
                                   double log_density) {
  member.log_weight =
      kFade * member.log_weight +
      std::log((1 - kSurpriseShare) * std::exp(log_density) + kSurpriseShare);
}

// Without another member the network has none to leave the study to.
bool SurrogateModel::takes_part(const SurrogateMember& member) const {
  return !member.corrected || !parts_.learnt ||
         observed_.size() <= kNetworkObservations;
}

std::vector<MemberTrust> SurrogateModel::trust() const {
  double top = -HUGE_VAL;
  for (const SurrogateMember& m : members_) {
    if (takes_part(m)) top = std::max(top, m.log_weight);
  }
  double sum = 0;
  std::vector<MemberTrust> result;
  for (const SurrogateMember& m : members_) {
    result.push_back(
        {m.name, takes_part(m) ? std::exp(m.log_weight - top) : 0.0});
    sum += result.back().weight;
  }
  for (MemberTrust& m : result) m.weight /= sum;
  return result;
}

}  // namespace dtune
