#include <fmt/format.h>

#include "dtune/base/random.h"
#include "dtune/tuner/candidates.h"
#include "dtune/tuner/prior.h"
#include "dtune/tuner/samplers.h"
#include "dtune/tuner/sequence.h"

namespace dtune {
namespace {

class RandomSequence final : public Sequence {
 public:
  explicit RandomSequence(uint64_t seed) : seed_(seed) {}
  void point(uint64_t index, std::span<double> unit) const override {
    Rng rng(mix_seed({seed_, hash_text("random"), index}));
    for (double& u : unit) u = rng.uniform();
  }

 private:
  uint64_t seed_;
};

class SequenceSampler final : public Sampler {
 public:
  SequenceSampler(const char* name, const Recipe& recipe,
                  std::unique_ptr<const Sequence> sequence)
      : name_(name), prior_(recipe.space), sequence_(std::move(sequence)) {}

  // Trial n tries the elements n, n + 1, ... of the sequence: those that
  // constraints or earlier trials rule out are passed over, none is skipped.
  std::optional<Proposal> propose(const Study& study,
                                  int64_t /*decision*/) override {
    taken_.update(study);
    const int64_t first = taken_.proposals();
    if (first == 0 && !prior_.empty()) {
      if (auto proposal = propose_prior(study)) return proposal;
    }
    int64_t element = first;
    auto point = first_free_point(
        study.recipe.space, taken_,
        [&](int64_t i) {
          element = first + i;
          return warped(study, element);
        },
        mix_seed({study.recipe.seed, hash_text("free"), uint64_t(first)}));
    if (!point) return std::nullopt;
    return Proposal{std::move(*point),
                    fmt::format("{} point {}{}", name_, element + 1,
                                prior_.empty() ? "" : ", near the prior")};
  }

 private:
  std::vector<double> warped(const Study& study, int64_t element) const {
    std::vector<double> unit(study.recipe.space.dimensions());
    sequence_->point(uint64_t(element), unit);
    prior_.warp(unit);
    return unit;
  }

  std::optional<Proposal> propose_prior(const Study& study) const {
    const SearchSpace& space = study.recipe.space;
    std::vector<double> unit = warped(study, 0);
    prior_.move_to_mode(unit);
    Point point = space.decode(unit);
    if (!space.satisfies(point)) return std::nullopt;
    return Proposal{std::move(point), "the prior itself"};
  }

  std::string name_;
  Prior prior_;
  std::unique_ptr<const Sequence> sequence_;
  TakenPoints taken_;
};

}  // namespace

std::unique_ptr<Sequence> make_random_sequence(uint64_t seed) {
  return std::make_unique<RandomSequence>(seed);
}

std::unique_ptr<Sampler> make_random_sampler(const Recipe& recipe) {
  return std::make_unique<SequenceSampler>("random", recipe,
                                           make_random_sequence(recipe.seed));
}

std::unique_ptr<Sampler> make_sobol_sampler(const Recipe& recipe) {
  return std::make_unique<SequenceSampler>(
      "Sobol", recipe,
      make_sobol_sequence(recipe.space.dimensions(), recipe.seed));
}

std::unique_ptr<Sampler> make_halton_sampler(const Recipe& recipe) {
  return std::make_unique<SequenceSampler>(
      "Halton", recipe,
      make_halton_sequence(recipe.space.dimensions(), recipe.seed));
}

}  // namespace dtune
