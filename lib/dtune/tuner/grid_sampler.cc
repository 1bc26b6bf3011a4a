#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/random.h"
#include "dtune/space/axis.h"
#include "dtune/tuner/candidates.h"
#include "dtune/tuner/options.h"
#include "dtune/tuner/samplers.h"

namespace dtune {
namespace {

constexpr uint64_t kMaxGrid = 1'000'000;
constexpr int kMaxPoints = 10'000;

// Coordinates of `points` values, ends included; values of a lattice that fall
// together count once.
std::vector<double> spread(const Parameter& parameter, int points) {
  std::vector<double> units;
  for (int i = 0; i < points; ++i) {
    const double even = points == 1 ? 0.5 : double(i) / (points - 1);
    const double unit = encode_value(parameter, decode_value(parameter, even));
    if (units.empty() || unit > units.back()) units.push_back(unit);
  }
  return units;
}

std::vector<double> all_values(const Parameter& parameter, uint64_t count) {
  std::vector<double> units;
  // More than kMaxGrid is refused where the combinations are counted.
  for (uint64_t i = 0; i < std::min(count, kMaxGrid + 1); ++i) {
    units.push_back(cell_middle(parameter, i));
  }
  return units;
}

// The coordinates of one parameter's grid values.
std::vector<double> grid_levels(const Parameter& parameter,
                                std::optional<int> points) {
  const std::optional<uint64_t> count = value_count(parameter);
  const bool number = parameter.kind == ParameterKind::real ||
                      parameter.kind == ParameterKind::integer;
  if (!count && !points) {
    throw Error(ErrorKind::config,
                fmt::format("sampler.points: the grid needs a number of values "
                            "for the real parameter '{}' (write points: 5, or "
                            "give the parameter a step)",
                            parameter.name));
  }
  if (count && (!points || !number || uint64_t(*points) >= *count)) {
    return all_values(parameter, *count);
  }
  return spread(parameter, *points);
}

class GridSampler final : public Sampler {
 public:
  explicit GridSampler(const Recipe& recipe) {
    const OptionReader options("sampler", recipe.sampler.options);
    const auto points = options.integer("points", 1, kMaxPoints);
    for (const Parameter& parameter : recipe.space.parameters()) {
      levels_.push_back(grid_levels(parameter, points));
    }
    order_.resize(count_combinations());
    std::iota(order_.begin(), order_.end(), 0);
    if (options.word("order", {"shuffled", "ordered"}) == "shuffled") {
      Rng rng(mix_seed({recipe.seed, hash_text("grid")}));
      rng.shuffle(std::span(order_));
    }
  }

  std::optional<Proposal> propose(const Study& study,
                                  int64_t /*decision*/) override {
    const SearchSpace& space = study.recipe.space;
    taken_.update(study);
    for (size_t i = 0; i < order_.size(); ++i) {
      if (taken_.contains_key(hash_at(space, i))) continue;
      Point point = combination(space, order_[i]);
      if (!space.satisfies(point)) continue;
      return Proposal{
          std::move(point),
          fmt::format("grid point {} of {}", order_[i] + 1, order_.size())};
    }
    return std::nullopt;
  }

 private:
  uint64_t count_combinations() const {
    uint64_t product = 1;
    for (const auto& levels : levels_) {
      if (product > kMaxGrid / levels.size()) {
        throw Error(ErrorKind::config,
                    fmt::format("sampler: the grid has more than {} points "
                                "(write fewer points:, or use sobol)",
                                kMaxGrid));
      }
      product *= levels.size();
    }
    return product;
  }

  Point combination(const SearchSpace& space, uint64_t number) const {
    std::vector<double> unit;
    for (const auto& levels : levels_) {
      unit.push_back(levels[number % levels.size()]);
      number /= levels.size();
    }
    return space.decode(unit);
  }

  // Hash of the point at a place of the order; remembered, as every proposal
  // goes through the covered ones again.
  uint64_t hash_at(const SearchSpace& space, size_t place) {
    while (hashes_.size() <= place) {
      hashes_.push_back(hash_point(combination(space, order_[hashes_.size()])));
    }
    return hashes_[place];
  }

  std::vector<std::vector<double>> levels_;  // per parameter: coordinates
  std::vector<uint32_t> order_;
  std::vector<uint64_t> hashes_;
  TakenPoints taken_;
};

}  // namespace

std::unique_ptr<Sampler> make_grid_sampler(const Recipe& recipe) {
  return std::make_unique<GridSampler>(recipe);
}

}  // namespace dtune
