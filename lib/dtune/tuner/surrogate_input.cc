// SurrogateModel: points and steps as the processes see them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "dtune/surrogate/recorded_cubes.h"
#include "dtune/tuner/cube_map.h"
#include "dtune/tuner/surrogate_model.h"
#include "dtune/tuner/surrogate_state.h"

namespace dtune {
namespace {

// Where a word is that a point does not have: as far from all as these from
// each other.
constexpr double kInactive = -1;

bool is_word(const Parameter& p) {
  return p.kind == ParameterKind::categorical ||
         p.kind == ParameterKind::boolean;
}

}  // namespace

std::vector<ProcessDimension> dimensions_of(const SearchSpace& space) {
  std::vector<ProcessDimension> dimensions;
  for (const Parameter& p : space.parameters()) {
    const bool in_cube = cube_role(p) != ParameterRole::none;
    const bool on_axis = p.ordered || (in_cube && is_ordered_choice(p));
    dimensions.push_back({is_word(p) && !on_axis, in_cube});
  }
  if (dimensions.empty()) dimensions.push_back({});
  return dimensions;
}

std::vector<int> make_ladder(int horizon) {
  if (horizon == kOpenHorizon) return {horizon};
  return ladder_steps(horizon);
}

int SurrogateModel::next_step(int step) const {
  const auto next = std::upper_bound(ladder_.begin(), ladder_.end(), step);
  return next == ladder_.end() ? horizon() : *next;
}

int SurrogateModel::step_within(int step, int ahead) const {
  return next_step(std::min(horizon(), step + ahead) - 1);
}

// encode() has what a point does not have in the middle, which may be a word's
// place.
std::vector<double> SurrogateModel::told_apart(
    std::span<const double> unit) const {
  std::vector<double> result(unit.begin(), unit.end());
  if (!conditional_) return result;
  const Point point = space_.decode(unit);
  for (size_t i = 0; i < result.size(); ++i) {
    const Parameter& p = space_.parameters()[i];
    if (is_word(p) && !point.contains(p.name)) result[i] = kInactive;
  }
  return result;
}

ProcessInput SurrogateModel::input(std::span<const double> unit, int step,
                                   int64_t training) const {
  ProcessInput input;
  input.training = training;
  input.unit = told_apart(unit);
  if (input.unit.empty()) input.unit.push_back(0.5);
  input.unit.resize(dimensions_.size(), 0);  // beside studies of old
  input.cube = cube_map_.cube_point(unit);
  const double share = open_ ? 1.0 : double(step) / horizon();
  input.time = std::clamp(share, 1e-9, 1.0);
  return input;
}

std::vector<ProcessInput> SurrogateModel::inputs(
    std::span<const ModelQuery> queries) const {
  std::vector<ProcessInput> result;
  result.reserve(queries.size());
  for (const ModelQuery& q : queries) result.push_back(input(q.unit, q.step));
  return result;
}

bool SurrogateModel::is_opening_point(const std::vector<double>& unit) const {
  constexpr double kRounding = 1e-6;  // of a point's values
  return std::any_of(
      parts_.opening.begin(), parts_.opening.end(),
      [&](const CubePoint& point) {
        // Steps and choices move the point that was asked for.
        const std::vector<double> there =
            space_.encode(space_.decode(cube_map_.unit(point, unit)));
        return std::equal(
            there.begin(), there.end(), unit.begin(), unit.end(),
            [](double a, double b) { return std::abs(a - b) <= kRounding; });
      });
}

std::optional<std::vector<double>> SurrogateModel::prior_best() const {
  if (!parts_.prior) return std::nullopt;
  return cube_map_.unit(parts_.prior->best_point(),
                        std::vector<double>(space_.dimensions(), 0.5));
}

std::vector<std::vector<double>> SurrogateModel::warm_best() const {
  std::vector<std::vector<double>> points;
  std::vector<ModelQuery> queries;
  for (const ProcessObservation& o : warm_) {
    const auto end = o.input.unit.begin() + std::ptrdiff_t(space_.dimensions());
    std::vector<double> unit(o.input.unit.begin(), end);
    for (double& u : unit) u = u == kInactive ? 0.5 : u;
    if (std::find(points.begin(), points.end(), unit) != points.end()) continue;
    queries.push_back({unit, horizon()});
    points.push_back(std::move(unit));
  }
  const std::vector<Gaussian> expected =
      processes_.front().predict(inputs(queries));
  std::vector<size_t> order(points.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return expected[a].mean > expected[b].mean;
  });
  std::vector<std::vector<double>> result;
  result.reserve(order.size());
  for (const size_t i : order) result.push_back(std::move(points[i]));
  return result;
}

}  // namespace dtune
