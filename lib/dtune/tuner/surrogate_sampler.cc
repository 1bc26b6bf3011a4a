// The samplers that propose by the surrogate.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "dtune/base/random.h"
#include "dtune/space/axis.h"
#include "dtune/tuner/acquisition.h"
#include "dtune/tuner/candidates.h"
#include "dtune/tuner/cube_map.h"
#include "dtune/tuner/curves.h"
#include "dtune/tuner/feasibility.h"
#include "dtune/tuner/prior.h"
#include "dtune/tuner/surrogate_tuner.h"

namespace dtune {
namespace {

using Units = std::vector<std::vector<double>>;

constexpr size_t kUniform = 200;
constexpr size_t kGrid = 80;
constexpr size_t kLocal = 60;
// More dimensions are more room, and each point costs time.
constexpr size_t kMoreADimension = 40;
constexpr size_t kMostMore = 280;

// Corners and faces matter: the best values often lie on them.
std::vector<double> grid_point(size_t d, Rng& rng) {
  constexpr uint64_t kLevels[] = {7, 6, 4};
  std::vector<double> unit(d);
  for (size_t i = 0; i < d; ++i) {
    const uint64_t levels = kLevels[i % 3];
    unit[i] = double(rng.below(levels)) / double(levels - 1);
  }
  return unit;
}

std::vector<double> neighbour(std::span<const double> centre, Rng& rng) {
  const double scale = 0.05 * std::pow(4.0, rng.uniform());  // .05 to .2
  std::vector<double> unit(centre.begin(), centre.end());
  // Beyond a handful of dimensions a point that moves in all is nowhere near.
  const double moved = std::min(1.0, 4.0 / double(unit.size()));
  for (double& u : unit) {
    if (rng.uniform() < moved) {
      u = std::clamp(u + scale * rng.normal(), 0.0, 1.0);
    }
  }
  return unit;
}

class SurrogateSampler final : public Sampler {
 public:
  SurrogateSampler(const Recipe& recipe, std::shared_ptr<SurrogateModel> model)
      : prior_(recipe.space), feasibility_(recipe), model_(std::move(model)) {}

  std::optional<Proposal> propose(const Study& study,
                                  int64_t decision) override;
  std::vector<std::string> explain(const Study& study) const override;
  std::map<std::string, double> weights(const Study& study) const override;

 private:
  struct Candidate {
    std::optional<Point> point;  // else the unit's, which may be taken
    std::vector<double> unit;
  };
  std::vector<Candidate> candidates(const Study& study, Rng& rng) const;
  std::optional<Proposal> opening(const Study& study) const;
  std::optional<Proposal> first(const Study& study) const;
  std::optional<Proposal> far_off(const Study& study) const;
  std::optional<size_t> best_free(const Study& study,
                                  std::vector<Candidate>& candidates,
                                  std::vector<double> chances) const;

  Prior prior_;
  Feasibility feasibility_;
  std::shared_ptr<SurrogateModel> model_;
  TakenPoints taken_;
};

// Reals that depend on nothing: a point is worth being made of a unit only where
// it is chosen, and hardly ever one that was tried.
bool is_continuous(const SearchSpace& space) {
  const auto& all = space.parameters();
  return space.constraint_texts().empty() &&
         std::all_of(all.begin(), all.end(), [](const Parameter& p) {
           return p.when.empty() && p.kind == ParameterKind::real &&
                  !value_count(p);
         });
}

// Points of the space, nearly all of them free.
std::vector<SurrogateSampler::Candidate> SurrogateSampler::candidates(
    const Study& study, Rng& rng) const {
  const SearchSpace& space = study.recipe.space;
  const size_t d = space.dimensions();
  const size_t more =
      d > 3 ? std::min((d - 3) * kMoreADimension, kMostMore) : 0;
  std::vector<Candidate> result;
  const bool continuous = is_continuous(space);
  const auto add = [&](const std::vector<double>& unit) {
    if (continuous) {
      result.push_back({std::nullopt, unit});
      return;
    }
    Point point = space.decode(unit);
    if (!space.satisfies(point) || taken_.contains(point)) return;
    std::vector<double> snapped = space.encode(point);
    result.push_back({std::move(point), std::move(snapped)});
  };
  std::vector<double> unit(d);
  for (size_t i = 0; i < kUniform + more; ++i) {
    for (double& u : unit) u = rng.uniform();
    if (i % 2 == 0) prior_.warp(unit);
    add(unit);
  }
  for (size_t i = 0; i < kGrid; ++i) add(grid_point(d, rng));
  const std::vector<double>& centre = study.trial(model_->leader().trial).unit;
  for (size_t i = 0; i < kLocal + more; ++i) add(neighbour(centre, rng));
  if (result.empty()) {
    if (auto free = any_free_point(space, taken_, rng()))
      add(space.encode(*free));
  }
  return result;
}

// The next of the points that open a study: what the process expects is far off
// where all that it has seen lie close together. Parameters that the cube does
// not know are in the middle of their ranges once, then anywhere.
std::optional<Sampler::Proposal> SurrogateSampler::opening(
    const Study& study) const {
  const SearchSpace& space = study.recipe.space;
  for (auto i = static_cast<size_t>(proposals_so_far(study));
       model_->opens_with(i); ++i) {
    std::vector<double> unit(space.dimensions(), 0.5);
    Rng rng(mix_seed({study.recipe.seed, hash_text("opening"), uint64_t(i)}));
    for (double& u : unit) u = i == 0 ? u : rng.uniform();
    Point point = space.decode(model_->opening_point(i, std::move(unit)));
    if (!space.satisfies(point) || taken_.contains(point)) continue;
    return Proposal{std::move(point),
                    "one of the points that suit most recorded studies", true};
  }
  return std::nullopt;
}

// Before anything was seen: where the user, a warm start, or what was recorded
// expects the best; further slots get points around it, and the next of the
// warm start's.
std::optional<Sampler::Proposal> SurrogateSampler::first(
    const Study& study) const {
  Units old = model_->warm_best();
  for (std::vector<double>& unit : old) prior_.move_to_mode(unit);
  std::vector<double> best = model_->prior_best().value_or(
      std::vector<double>(study.recipe.space.dimensions(), 0.5));
  prior_.move_to_mode(best);
  if (!old.empty()) best = old.front();
  const std::string why =
      !prior_.empty()        ? "where the best is expected"
      : !old.empty()         ? "among the best points of the warm start"
      : model_->prior_best() ? "the best point of recorded studies"
                             : "where the best is expected";
  auto point = first_free_point(
      study.recipe.space, taken_,
      [&](int64_t i) {
        if (i == 0) return best;
        if (i % 2 == 0 && size_t(i / 2) < old.size()) return old[size_t(i / 2)];
        Rng rng(mix_seed({study.recipe.seed, hash_text("first"), uint64_t(i)}));
        if (i % 2 == 1) return neighbour(best, rng);
        std::vector<double> unit(best.size());
        for (double& u : unit) u = rng.uniform();
        return unit;
      },
      study.recipe.seed);
  if (!point) return std::nullopt;
  return Proposal{*std::move(point), why};
}

// The first point at another learning rate, as far as can be from those tried:
// where nothing learns at all, it is the rate, and predictions have nothing to
// go by. An end of the range is rarely good, so its distance counts half.
std::optional<Sampler::Proposal> SurrogateSampler::far_off(
    const Study& study) const {
  constexpr int kRates = 20;
  constexpr double kTooNear = 0.05;
  const auto& parameters = study.recipe.space.parameters();
  const auto rate = std::find_if(
      parameters.begin(), parameters.end(), [](const Parameter& p) {
        return cube_role(p) == ParameterRole::learning_rate;
      });
  if (rate == parameters.end()) return std::nullopt;
  const auto axis = static_cast<size_t>(rate - parameters.begin());
  std::vector<double> unit = study.trials.front().unit;
  double farthest = 0;
  for (int i = 0; i <= kRates; ++i) {
    const double at = double(i) / kRates;
    double distance = 1;
    for (const Trial& trial : study.trials) {
      distance = std::min(distance, std::abs(trial.unit[axis] - at));
    }
    if (i == 0 || i == kRates) distance /= 2;
    if (distance <= farthest) continue;
    farthest = distance;
    unit[axis] = at;
  }
  Point point = study.recipe.space.decode(unit);
  if (farthest < kTooNear || !study.recipe.space.satisfies(point) ||
      taken_.contains(point)) {
    return std::nullopt;
  }
  return Proposal{std::move(point),
                  "far from rates at which nothing is learnt"};
}

// Where the chance is largest; it has its point then.
std::optional<size_t> SurrogateSampler::best_free(
    const Study& study, std::vector<Candidate>& candidates,
    std::vector<double> chances) const {
  for (size_t left = candidates.size(); left > 0; --left) {
    const auto best = static_cast<size_t>(
        std::max_element(chances.begin(), chances.end()) - chances.begin());
    Candidate& candidate = candidates[best];
    if (candidate.point) return best;
    Point point = study.recipe.space.decode(candidate.unit);
    if (!taken_.contains(point)) {
      candidate.point = std::move(point);
      return best;
    }
    chances[best] = -HUGE_VAL;
  }
  return std::nullopt;
}

std::optional<Sampler::Proposal> SurrogateSampler::propose(const Study& study,
                                                           int64_t decision) {
  const std::vector<Expectation> bounds = draw_bounds(study, decision);
  model_->bound(bounds);
  model_->update(study);
  taken_.update(study);
  if (auto proposal = opening(study)) return proposal;
  if (model_->empty()) return first(study);
  if (is_brief(*model_) && nothing_learnt(study)) {
    if (auto far = far_off(study)) return far;
  }
  Rng rng(mix_seed(
      {study.recipe.seed, hash_text("candidates"), uint64_t(decision)}));
  std::vector<Candidate> free = candidates(study, rng);
  if (free.empty()) return std::nullopt;
  const int ahead =
      draw_horizon(study.recipe.seed, decision, model_->horizon());
  const int step = model_->step_within(0, ahead);
  std::vector<ModelQuery> queries;
  queries.reserve(free.size());
  for (const Candidate& c : free) queries.push_back({c.unit, step});
  std::vector<double> chances = model_->log_gain(queries);
  const std::vector<double> gain = chances;
  feasibility_.bound(bounds);
  if (!feasibility_.empty()) {
    feasibility_.update(study);
    for (size_t i = 0; i < free.size(); ++i) {
      chances[i] += feasibility_.log_chance(
          free[i].point ? *free[i].point
                        : study.recipe.space.decode(free[i].unit));
    }
  }
  if (!prior_.empty()) {
    const double weight = prior_weight(study);
    for (size_t i = 0; i < free.size(); ++i) {
      chances[i] += weight * prior_.log_density(free[i].unit);
    }
  }
  const auto best = best_free(study, free, std::move(chances));
  if (!best) return std::nullopt;
  return Proposal{
      *std::move(free[*best].point),
      fmt::format("E(gain at {}) = {:.3g}, the largest of {} new points",
                  step_text(step), std::exp(gain[*best]), free.size())};
}

std::vector<std::string> SurrogateSampler::explain(const Study& study) const {
  model_->update(study);
  return describe_model(*model_);
}

std::map<std::string, double> SurrogateSampler::weights(
    const Study& study) const {
  model_->update(study);
  return model_->weights();
}

}  // namespace

double prior_weight(const Study& study) {
  return 10.0 / double(1 + proposals_so_far(study));
}

std::vector<std::string> describe_model(const SurrogateModel& model) {
  std::string text;
  for (const MemberTrust& m : model.trust()) {
    text += fmt::format("{}{} {:.0f}%", text.empty() ? "trusts " : ", ", m.name,
                        100 * m.weight);
  }
  if (!model.why_unlearnt().empty()) {
    text += fmt::format(" (the learnt prior takes no part: {})",
                        model.why_unlearnt());
  }
  std::vector<std::string> lines = model.caveats();
  lines.insert(lines.begin(), text);
  return lines;
}

std::unique_ptr<Sampler> make_surrogate_sampler(
    const Recipe& recipe, std::shared_ptr<SurrogateModel> model) {
  return std::make_unique<SurrogateSampler>(recipe, std::move(model));
}

}  // namespace dtune
