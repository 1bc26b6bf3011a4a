#include <fmt/format.h>

#include "dtune/base/random.h"
#include "dtune/tuner/evidence.h"
#include "dtune/tuner/feasibility.h"
#include "dtune/tuner/gp_model.h"
#include "dtune/tuner/model_sampler.h"
#include "dtune/tuner/model_space.h"
#include "dtune/tuner/options.h"
#include "dtune/tuner/point_search.h"
#include "dtune/tuner/prior.h"
#include "dtune/tuner/samplers.h"

namespace dtune {
namespace {

using Eigen::Index;

constexpr int kStartup = 5;
// piBO's beta: after so many outcomes the user's prior weighs as much as the
// acquisition itself.
constexpr double kPriorStrength = 10;

class GpSampler final : public ModelSampler {
 public:
  GpSampler(const Recipe& recipe, const OptionReader& options)
      : ModelSampler(recipe,
                     options.integer("startup", 1, 10'000).value_or(kStartup)),
        prior_(recipe.space),
        feasibility_(std::make_unique<Feasibility>(recipe)) {}

  std::vector<std::string> explain(const Study& study) const override {
    const Evidence evidence = gather_evidence(study);
    const SearchSpace& space = study.recipe.space;
    if (!evidence.varied || space.dimensions() == 0) {
      return {"gp: too few different outcomes to fit a process, Sobol points"};
    }
    const FittedStudy model(ModelSpace(space), evidence);
    const Eigen::VectorXd lengths = model.process().length_scales();
    std::vector<std::string> sentences = {
        fmt::format("gp: a Gaussian process of {} outcomes, noise {:.2g}",
                    model.outcomes(), model.process().noise())};
    for (size_t i = 0; i < space.dimensions(); ++i) {
      sentences.push_back(fmt::format(
          "{}: length scale {:.2g} of its range (short: it matters)",
          space.parameters()[i].name, lengths[Index(i)]));
    }
    return sentences;
  }

 private:
  std::optional<Proposal> propose_by_model(const Study& study,
                                           const Evidence& evidence,
                                           uint64_t proposals) const override {
    const ModelSpace space(study.recipe.space);
    const FittedStudy model(space, evidence);
    const double weight = kPriorStrength / double(evidence.outcomes.size());
    feasibility_->update(study);
    const auto place = find_best_point(
        taken(), space,
        [&](std::span<const double> at, std::vector<double>* slope) {
          return acquire(model, weight, at, slope);
        },
        model.centres(),
        mix_seed({study.recipe.seed, hash_text("gp"), proposals}));
    if (!place) return std::nullopt;
    const GpPrediction p = model.predict(place->coordinates);
    const double sign = study.recipe.objective.goal == Goal::maximize ? 1 : -1;
    return Proposal{
        place->point,
        fmt::format("expected to improve on {:.4g}: predicted {:.4g} +- {:.2g} "
                    "after {} outcomes",
                    sign * model.restored(model.best()),
                    sign * model.restored(p.mean), p.deviation,
                    model.outcomes())};
  }

  // piBO (Hvarfner et al. 2022, arXiv 2204.11051): the improvement times the
  // user's density to a power that falls with the number of outcomes.
  double acquire(const FittedStudy& model, double weight,
                 std::span<const double> at, std::vector<double>* slope) const {
    double value = model.improvement(at, slope).value;
    if (!feasibility_->empty()) {
      const std::vector<double> here(at.begin(), at.end());
      value += add(here, slope, [&](const std::vector<double>& u) {
        return feasibility_->log_chance_at(u);
      });
    }
    if (prior_.empty()) return value;
    // Inactive words are at -1, where no density is: to the middle, as encoded.
    std::vector<double> moved(at.begin(), at.end());
    for (double& u : moved) u = u < 0 ? 0.5 : u;
    return value + add(moved, slope, [&](const std::vector<double>& u) {
             return weight * prior_.log_density(u);
           });
  }

  // The term at a place; its derivatives, by differences, go on top of `slope`.
  template <typename Term>
  static double add(std::vector<double> at, std::vector<double>* slope,
                    const Term& term) {
    constexpr double kStep = 1e-4;
    for (size_t i = 0; slope != nullptr && i < at.size(); ++i) {
      const double middle = at[i];
      at[i] = middle + kStep;
      const double above = term(at);
      at[i] = middle - kStep;
      const double below = term(at);
      at[i] = middle;
      (*slope)[i] += (above - below) / (2 * kStep);
    }
    return term(at);
  }

  Prior prior_;
  std::unique_ptr<Feasibility> feasibility_;
};

}  // namespace

std::unique_ptr<Sampler> make_gp_sampler(const Recipe& recipe) {
  const OptionReader options("sampler", recipe.sampler.options);
  return std::make_unique<GpSampler>(recipe, options);
}

}  // namespace dtune
