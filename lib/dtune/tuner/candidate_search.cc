#include "dtune/tuner/candidate_search.h"

#include <algorithm>
#include <cmath>

#include "dtune/base/random.h"
#include "dtune/tuner/candidates.h"

namespace dtune {
namespace {

using Units = std::vector<std::vector<double>>;

constexpr int kUniform = 200;
constexpr int kGrid = 80;
constexpr int kLocal = 80;
constexpr int kRounds = 3;
constexpr int kNeighbours = 60;

std::vector<double> uniform_point(size_t d, Rng& rng) {
  std::vector<double> unit(d);
  for (double& u : unit) u = rng.uniform();
  return unit;
}

// Corners and faces matter: the best values often lie on them.
std::vector<double> grid_point(size_t d, Rng& rng) {
  constexpr uint64_t kLevels = 6;
  std::vector<double> unit(d);
  for (double& u : unit) {
    u = static_cast<double>(rng.below(kLevels)) / (kLevels - 1);
  }
  return unit;
}

// Half of the neighbours differ in one coordinate only.
std::vector<double> neighbour(std::span<const double> centre, double scale,
                              Rng& rng) {
  std::vector<double> unit(centre.begin(), centre.end());
  const bool one = rng.uniform() < 0.5;
  const size_t which = rng.below(unit.size());
  for (size_t i = 0; i < unit.size(); ++i) {
    if (one && i != which) continue;
    unit[i] = std::clamp(unit[i] + scale * rng.normal(), 0.0, 1.0);
  }
  return unit;
}

// Units of the three best trials.
Units best_units(const Study& study) {
  std::vector<std::pair<double, const Trial*>> ranked;
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search || trial.unit.empty()) continue;
    if (const auto value = best_value(study.recipe.objective, trial)) {
      ranked.emplace_back(-*value, &trial);
    }
  }
  const size_t n = std::min<size_t>(3, ranked.size());
  std::partial_sort(ranked.begin(),
                    ranked.begin() + static_cast<std::ptrdiff_t>(n),
                    ranked.end(), [](const auto& a, const auto& b) {
                      return a.first != b.first ? a.first < b.first
                                                : a.second->id < b.second->id;
                    });
  Units units;
  for (size_t i = 0; i < n; ++i) units.push_back(ranked[i].second->unit);
  return units;
}

// Snaps to the space's values; leaves out what is taken or not allowed.
class Admission {
 public:
  explicit Admission(const Study& study) : study_(study) {}

  std::optional<ScoredPoint> admit(const std::vector<double>& unit) const {
    const SearchSpace& space = study_.recipe.space;
    Point point = space.decode(unit);
    if (!space.satisfies(point) || is_taken(study_, point)) return std::nullopt;
    ScoredPoint result;
    result.unit = space.encode(point);
    result.point = std::move(point);
    return result;
  }

 private:
  const Study& study_;
};

void score_all(std::vector<ScoredPoint>& points, const PointScore& score) {
  Units units;
  units.reserve(points.size());
  for (const ScoredPoint& p : points) units.push_back(p.unit);
  const std::vector<double> scores = score(units);
  for (size_t i = 0; i < points.size(); ++i) points[i].score = scores[i];
}

const ScoredPoint& best_of(const std::vector<ScoredPoint>& points) {
  return *std::max_element(points.begin(), points.end(),
                           [](const ScoredPoint& a, const ScoredPoint& b) {
                             return a.score < b.score;
                           });
}

}  // namespace

std::optional<ScoredPoint> search_candidates(
    const Study& study, const PointScore& score, uint64_t seed,
    std::span<const std::vector<double>> extra) {
  const size_t d = study.recipe.space.dimensions();
  if (d == 0) return std::nullopt;
  Rng rng(seed);
  const Admission admission(study);
  std::vector<ScoredPoint> points;
  const auto add = [&](const std::vector<double>& unit) {
    if (auto point = admission.admit(unit)) points.push_back(*std::move(point));
  };
  for (const auto& unit : extra) add(unit);
  for (int i = 0; i < kUniform; ++i) add(uniform_point(d, rng));
  for (int i = 0; i < kGrid; ++i) {
    add(d <= 3 ? grid_point(d, rng) : uniform_point(d, rng));
  }
  const Units centres = best_units(study);
  for (int i = 0; i < kLocal && !centres.empty(); ++i) {
    const double scale = 0.02 * std::pow(12.5, rng.uniform());  // .02 to .25
    add(neighbour(centres[size_t(i) % centres.size()], scale, rng));
  }
  if (points.empty()) {
    auto free = any_free_point(study, seed);
    if (!free) return std::nullopt;
    points.push_back({study.recipe.space.encode(*free), *free, 0});
  }
  score_all(points, score);
  ScoredPoint best = best_of(points);
  double scale = 0.12;
  for (int round = 0; round < kRounds; ++round, scale *= 0.5) {
    points.clear();
    for (int i = 0; i < kNeighbours; ++i) add(neighbour(best.unit, scale, rng));
    if (points.empty()) continue;
    score_all(points, score);
    if (best_of(points).score > best.score) best = best_of(points);
  }
  return best;
}

}  // namespace dtune
