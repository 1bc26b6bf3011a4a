#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "dtune/base/random.h"
#include "dtune/tuner/evidence.h"
#include "dtune/tuner/model_sampler.h"
#include "dtune/tuner/model_space.h"
#include "dtune/tuner/options.h"
#include "dtune/tuner/parzen.h"
#include "dtune/tuner/prior.h"
#include "dtune/tuner/samplers.h"

namespace dtune {
namespace {

constexpr int kTpeStartup = 10;
constexpr int kCandidates = 24;
constexpr double kGamma = 0.1;
constexpr size_t kMostGood = 25;
// Older points than so many weigh less, and of very many only the latest and
// some of the older are looked at.
constexpr size_t kRecent = 25;
constexpr size_t kMostOthers = 1000;
constexpr double kTpePriorStrength = 10;  // piBO's beta, as in gp_sampler.cc

// Trials of a study, told apart; each in the order of the trials.
struct Split {
  std::vector<const Trial*> good;
  std::vector<const Trial*> others;
};

bool ranks_before(const Outcome& a, const Outcome& b) {
  if (a.broken != b.broken) return b.broken;
  if (a.length != b.length) return a.length > b.length;
  return a.value > b.value;
}

Split split(const Evidence& evidence, double gamma) {
  std::vector<Outcome> ranked;
  for (const Outcome& outcome : evidence.outcomes) {
    if (!is_pending(*outcome.trial)) ranked.push_back(outcome);
  }
  std::stable_sort(ranked.begin(), ranked.end(), ranks_before);
  const auto share = size_t(std::ceil(gamma * double(ranked.size())));
  const size_t good = std::min(share, kMostGood);
  Split split;
  for (size_t i = 0; i < ranked.size(); ++i) {
    const bool is_good = i < good && !ranked[i].broken;
    (is_good ? split.good : split.others).push_back(ranked[i].trial);
  }
  split.others.insert(split.others.end(), evidence.pending.begin(),
                      evidence.pending.end());
  const auto by_id = [](const Trial* a, const Trial* b) {
    return a->id < b->id;
  };
  std::sort(split.good.begin(), split.good.end(), by_id);
  std::sort(split.others.begin(), split.others.end(), by_id);
  return split;
}

// Of very many, every k-th of the older ones and the latest.
std::vector<const Trial*> thinned(const std::vector<const Trial*>& trials) {
  if (trials.size() <= kMostOthers) return trials;
  std::vector<const Trial*> kept;
  for (size_t i = 0; i < kMostOthers; ++i) {
    kept.push_back(trials[(i + 1) * trials.size() / kMostOthers - 1]);
  }
  return kept;
}

// A ramp from 1/n to 1, then 1 for the latest.
std::vector<double> weights_by_age(size_t n) {
  std::vector<double> weights(n, 1);
  if (n <= kRecent) return weights;
  const size_t old = n - kRecent;
  const double first = 1 / double(n);
  for (size_t i = 0; i < old; ++i) {
    const double along = old > 1 ? double(i) / double(old - 1) : 0;
    weights[i] = first + (1 - first) * along;
  }
  return weights;
}

class TpeSampler final : public ModelSampler {
 public:
  TpeSampler(const Recipe& recipe, const OptionReader& options)
      : ModelSampler(
            recipe,
            options.integer("startup", 1, 10'000).value_or(kTpeStartup)),
        prior_(recipe.space),
        candidates_(
            options.integer("candidates", 1, 10'000).value_or(kCandidates)),
        gamma_(options.number("gamma", 0.001, 0.9).value_or(kGamma)) {}

 private:
  ParzenEstimator estimate(const ModelSpace& space,
                           const std::vector<const Trial*>& trials) const {
    std::vector<Place> places;
    for (const Trial* trial : trials)
      places.push_back(space.place(trial->point));
    std::vector<double> weights = weights_by_age(places.size());
    return ParzenEstimator(space, prior_, std::move(places),
                           std::move(weights));
  }

  std::optional<Proposal> propose_by_model(const Study& study,
                                           const Evidence& evidence,
                                           uint64_t proposals) const override {
    const ModelSpace space(study.recipe.space);
    const Split parts = split(evidence, gamma_);
    if (parts.good.empty()) return std::nullopt;
    const ParzenEstimator good = estimate(space, parts.good);
    const ParzenEstimator others = estimate(space, thinned(parts.others));
    const double weight = kTpePriorStrength / double(evidence.outcomes.size());
    Rng rng(mix_seed({study.recipe.seed, hash_text("tpe"), proposals}));
    std::optional<Place> best;
    double best_score = -INFINITY;
    int found = 0;
    for (int i = 0; i < 20 * candidates_ && found < candidates_; ++i) {
      auto place = space.snap(good.sample(rng));
      if (!place || taken().contains(place->point)) continue;
      ++found;
      const double score = good.log_density(*place) -
                           others.log_density(*place) +
                           weight * prior_.log_density(place->unit);
      if (score <= best_score) continue;
      best_score = score;
      best = std::move(place);
    }
    if (!best) return std::nullopt;
    return Proposal{
        std::move(best->point),
        fmt::format("{:.3g} times as dense among the best {} as among the "
                    "other {} (best of {} candidates)",
                    std::exp(std::min(best_score, 700.0)), parts.good.size(),
                    parts.others.size(), found)};
  }

  Prior prior_;
  int candidates_;
  double gamma_;
};

}  // namespace

std::unique_ptr<Sampler> make_tpe_sampler(const Recipe& recipe) {
  const OptionReader options("sampler", recipe.sampler.options);
  return std::make_unique<TpeSampler>(recipe, options);
}

}  // namespace dtune
