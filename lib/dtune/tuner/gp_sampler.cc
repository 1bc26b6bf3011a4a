#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "dtune/base/random.h"
#include "dtune/surrogate/expected_improvement.h"
#include "dtune/surrogate/gaussian_process.h"
#include "dtune/tuner/candidates.h"
#include "dtune/tuner/evidence.h"
#include "dtune/tuner/model_space.h"
#include "dtune/tuner/options.h"
#include "dtune/tuner/point_search.h"
#include "dtune/tuner/prior.h"
#include "dtune/tuner/samplers.h"

namespace dtune {
namespace {

using Eigen::Index;

constexpr int kStartup = 5;
// More outcomes than these would make fits slow: the best are kept, and some
// evenly spread over the ranks of the others.
constexpr size_t kBestKept = 140;
constexpr size_t kOthersKept = 60;
// piBO's beta: after so many outcomes the user's prior weighs as much as the
// acquisition itself.
constexpr double kPriorStrength = 10;

Recipe startup_recipe(const Recipe& recipe) {
  Recipe copy = recipe;
  copy.sampler = {"sobol", {}};
  return copy;
}

// Best first, ties in the order of the trials.
std::vector<Outcome> most_telling(std::vector<Outcome> outcomes) {
  std::stable_sort(
      outcomes.begin(), outcomes.end(),
      [](const Outcome& a, const Outcome& b) { return a.value > b.value; });
  if (outcomes.size() <= kBestKept + kOthersKept) return outcomes;
  std::vector<Outcome> kept(outcomes.begin(),
                            outcomes.begin() + std::ptrdiff_t(kBestKept));
  const size_t others = outcomes.size() - kBestKept;
  for (size_t i = 0; i < kOthersKept; ++i) {
    kept.push_back(outcomes[kBestKept + (i + 1) * others / kOthersKept - 1]);
  }
  return kept;
}

// A process fitted to a study, predicting full trainings.
class FittedStudy {
 public:
  FittedStudy(const ModelSpace& space, const Evidence& evidence);

  LogImprovement improvement(std::span<const double> coordinates,
                             std::vector<double>* slope) const;
  GpPrediction predict(std::span<const double> coordinates,
                       bool slopes = false) const {
    return process_.predict(vector_of(coordinates, 1), slopes);
  }
  double best() const { return best_; }
  size_t outcomes() const { return outcomes_.size(); }
  const GaussianProcess& process() const { return process_; }
  // Where trials did best.
  const std::vector<Place>& centres() const { return centres_; }

 private:
  Eigen::VectorXd vector_of(std::span<const double> coordinates,
                            double length) const;
  static std::vector<bool> axes(const ModelSpace& space, bool with_length);

  bool with_length_;
  std::vector<Outcome> outcomes_;
  std::vector<Place> centres_;
  GaussianProcess process_;
  double best_ = -INFINITY;
};

std::vector<bool> FittedStudy::axes(const ModelSpace& space, bool with_length) {
  std::vector<bool> categories = space.categories();
  if (with_length) categories.push_back(false);
  return categories;
}

Eigen::VectorXd FittedStudy::vector_of(std::span<const double> coordinates,
                                       double length) const {
  const auto d = Index(coordinates.size());
  Eigen::VectorXd x(d + (with_length_ ? 1 : 0));
  for (Index i = 0; i < d; ++i) x[i] = coordinates[size_t(i)];
  if (with_length_) x[d] = length;
  return x;
}

FittedStudy::FittedStudy(const ModelSpace& space, const Evidence& evidence)
    : with_length_(evidence.mixed_lengths),
      outcomes_(most_telling(evidence.outcomes)),
      process_(axes(space, with_length_)) {
  const auto n = Index(outcomes_.size());
  const auto d = Index(space.dimensions()) + (with_length_ ? 1 : 0);
  Eigen::MatrixXd x(d, n);
  Eigen::VectorXd y(n);
  std::vector<Place> places;
  for (Index i = 0; i < n; ++i) {
    const Outcome& outcome = outcomes_[size_t(i)];
    places.push_back(space.place(outcome.trial->point));
    x.col(i) = vector_of(places.back().coordinates, outcome.length);
    y[i] = outcome.value;
  }
  process_.fit(x, y);
  best_ = y.maxCoeff();
  Eigen::MatrixXd pending(d, Index(evidence.pending.size()));
  for (Index i = 0; i < pending.cols(); ++i) {
    const Trial& trial = *evidence.pending[size_t(i)];
    pending.col(i) = vector_of(space.place(trial.point).coordinates, 1);
  }
  process_.believe(pending);
  centres_ = std::move(places);
}

LogImprovement FittedStudy::improvement(std::span<const double> coordinates,
                                        std::vector<double>* slope) const {
  const GpPrediction p = predict(coordinates, slope != nullptr);
  const LogImprovement gain =
      log_expected_improvement(p.mean, p.deviation, best_);
  if (slope == nullptr) return gain;
  slope->resize(coordinates.size());
  for (size_t i = 0; i < slope->size(); ++i) {
    (*slope)[i] = gain.by_mean * p.mean_slope[Index(i)] +
                  gain.by_deviation * p.deviation_slope[Index(i)];
  }
  return gain;
}

class GpSampler final : public Sampler {
 public:
  explicit GpSampler(const Recipe& recipe)
      : startup_(make_sobol_sampler(startup_recipe(recipe))),
        prior_(recipe.space) {
    const OptionReader options("sampler", recipe.sampler.kind,
                               recipe.sampler.options, {"startup"});
    startup_trials_ = options.integer("startup", 1, 10'000).value_or(kStartup);
  }

  std::optional<Proposal> propose(const Study& study,
                                  int64_t decision) override {
    const int64_t proposals = proposals_so_far(study);
    const Evidence evidence = gather_evidence(study);
    if (proposals < startup_trials_ || !evidence.varied ||
        study.recipe.space.dimensions() == 0) {
      return startup_->propose(study, decision);
    }
    auto proposal = propose_by_model(study, evidence, uint64_t(proposals));
    return proposal ? proposal : startup_->propose(study, decision);
  }

 private:
  std::optional<Proposal> propose_by_model(const Study& study,
                                           const Evidence& evidence,
                                           uint64_t proposals) const {
    const ModelSpace space(study.recipe.space);
    const FittedStudy model(space, evidence);
    const double weight = kPriorStrength / double(evidence.outcomes.size());
    const auto place = find_best_point(
        study, space,
        [&](std::span<const double> at, std::vector<double>* slope) {
          return acquire(model, weight, at, slope);
        },
        model.centres(),
        mix_seed({study.recipe.seed, hash_text("gp"), proposals}));
    if (!place) return std::nullopt;
    const GpPrediction p = model.predict(place->coordinates);
    return Proposal{
        place->point,
        fmt::format("expected to improve on {:.4g}: predicted {:.4g} +- {:.2g} "
                    "after {} outcomes",
                    model.best(), p.mean, p.deviation, model.outcomes())};
  }

  // piBO (Hvarfner et al. 2022, arXiv 2204.11051): the improvement times the
  // user's density to a power that falls with the number of outcomes.
  double acquire(const FittedStudy& model, double weight,
                 std::span<const double> at, std::vector<double>* slope) const {
    double value = model.improvement(at, slope).value;
    if (prior_.empty()) return value;
    value += weight * prior_.log_density(at);
    if (slope == nullptr) return value;
    constexpr double kStep = 1e-4;
    std::vector<double> moved(at.begin(), at.end());
    for (size_t i = 0; i < moved.size(); ++i) {
      moved[i] = at[i] + kStep;
      const double above = prior_.log_density(moved);
      moved[i] = at[i] - kStep;
      const double below = prior_.log_density(moved);
      moved[i] = at[i];
      (*slope)[i] += weight * (above - below) / (2 * kStep);
    }
    return value;
  }

  std::unique_ptr<Sampler> startup_;
  Prior prior_;
  int startup_trials_ = kStartup;
};

}  // namespace

std::unique_ptr<Sampler> make_gp_sampler(const Recipe& recipe) {
  return std::make_unique<GpSampler>(recipe);
}

}  // namespace dtune
