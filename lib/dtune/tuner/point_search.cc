#include "dtune/tuner/point_search.h"

#include <algorithm>
#include <cmath>

#include "dtune/base/random.h"
#include "dtune/surrogate/bfgs.h"
#include "dtune/tuner/sequence.h"

namespace dtune {
namespace {

constexpr uint64_t kSobolPoints = 512;
constexpr size_t kCentres = 8;
constexpr int kAround = 24;  // points around each centre
constexpr size_t kRefined = 8;
constexpr int kRounds = 3;  // of refinement

struct Scored {
  Place place;
  double score = 0;
};

class Search {
 public:
  Search(const TakenPoints& taken, const ModelSpace& space,
         const Acquisition& acquisition, uint64_t seed)
      : taken_(taken), space_(space), acquisition_(acquisition), seed_(seed) {}

  void spread();
  void around(const std::vector<Place>& centres);
  void refine();
  std::optional<Place> best_free();

 private:
  void consider(std::span<const double> unit);
  void consider(Place place);
  std::vector<double> climb(const Place& from) const;
  void sort();

  const TakenPoints& taken_;
  const ModelSpace& space_;
  const Acquisition& acquisition_;
  uint64_t seed_;
  std::vector<Scored> found_;
};

void Search::consider(Place place) {
  const double score = acquisition_(place.coordinates, nullptr);
  if (std::isfinite(score)) found_.push_back({std::move(place), score});
}

void Search::consider(std::span<const double> unit) {
  if (auto place = space_.snap(unit)) consider(std::move(*place));
}

void Search::spread() {
  const auto sequence = make_sobol_sequence(space_.dimensions(), seed_);
  std::vector<double> unit(space_.dimensions());
  for (uint64_t i = 0; i < kSobolPoints; ++i) {
    sequence->point(i, unit);
    consider(unit);
  }
}

// Half of the coordinates move, by normal steps of one of several sizes.
void Search::around(const std::vector<Place>& centres) {
  Rng rng(mix_seed({seed_, hash_text("around")}));
  const size_t count = std::min(centres.size(), kCentres);
  for (size_t c = 0; c < count; ++c) {
    for (int i = 0; i < kAround; ++i) {
      const double size = 0.3 * std::pow(0.5, i % 6);
      std::vector<double> unit = centres[c].unit;
      for (size_t k = 0; k < unit.size(); ++k) {
        if (rng.uniform() < 0.5) continue;
        unit[k] = space_.smooth()[k]
                      ? std::clamp(unit[k] + size * rng.normal(), 0.0, 1.0)
                      : rng.uniform();
      }
      consider(unit);
    }
  }
}

// Gradient ascent in the smooth coordinates; outside [0, 1] the function goes
// on as at the edge.
std::vector<double> Search::climb(const Place& from) const {
  std::vector<size_t> moving;
  for (size_t i = 0; i < space_.dimensions(); ++i) {
    const auto& name = space_.space().parameters()[i].name;
    if (space_.smooth()[i] && from.point.contains(name)) moving.push_back(i);
  }
  if (moving.empty()) return from.unit;
  const auto count = Eigen::Index(moving.size());
  std::vector<double> coordinates = from.coordinates;
  std::vector<double> slope;
  const SmoothFunction function = [&](const Eigen::VectorXd& x,
                                      Eigen::VectorXd* gradient) {
    for (Eigen::Index i = 0; i < count; ++i) {
      coordinates[moving[size_t(i)]] = std::clamp(x[i], 0.0, 1.0);
    }
    const double value =
        acquisition_(coordinates, gradient == nullptr ? nullptr : &slope);
    if (gradient != nullptr) {
      gradient->resize(count);
      for (Eigen::Index i = 0; i < count; ++i) {
        const bool inside = x[i] >= 0 && x[i] <= 1;
        (*gradient)[i] = inside ? -slope[moving[size_t(i)]] : 0;
      }
    }
    return -value;
  };
  Eigen::VectorXd x(count);
  for (Eigen::Index i = 0; i < count; ++i) {
    x[i] = from.unit[moving[size_t(i)]];
  }
  BfgsOptions options;
  options.iterations = 30;
  options.first_scale = 0.003;
  options.largest_step = 0.3;
  options.tolerance = 1e-6;
  x = minimise(function, x, options);
  std::vector<double> unit = from.unit;
  for (Eigen::Index i = 0; i < count; ++i) {
    unit[moving[size_t(i)]] = std::clamp(x[i], 0.0, 1.0);
  }
  return unit;
}

void Search::sort() {
  std::stable_sort(
      found_.begin(), found_.end(),
      [](const Scored& a, const Scored& b) { return a.score > b.score; });
}

void Search::refine() {
  sort();
  const size_t count = std::min(found_.size(), kRefined);
  std::vector<Scored> fronts(found_.begin(),
                             found_.begin() + std::ptrdiff_t(count));
  for (Scored& front : fronts) {
    for (int round = 0; round < kRounds; ++round) {
      const size_t before = found_.size();
      consider(climb(front.place));
      for (Place& place : space_.neighbours(front.place)) {
        consider(std::move(place));
      }
      const double old = front.score;
      for (size_t i = before; i < found_.size(); ++i) {
        if (found_[i].score > front.score) front = found_[i];
      }
      if (front.score <= old + 1e-6) break;
    }
  }
}

std::optional<Place> Search::best_free() {
  sort();
  for (Scored& scored : found_) {
    if (!taken_.contains(scored.place.point)) return std::move(scored.place);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Place> find_best_point(const TakenPoints& taken,
                                     const ModelSpace& space,
                                     const Acquisition& acquisition,
                                     const std::vector<Place>& centres,
                                     uint64_t seed) {
  Search search(taken, space, acquisition, seed);
  search.spread();
  search.around(centres);
  search.refine();
  return search.best_free();
}

}  // namespace dtune
