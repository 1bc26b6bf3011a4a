#include "dtune/config/extremes.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "dtune/base/random.h"
#include "dtune/config/path.h"

namespace dtune {
namespace {

// Coordinates at which every value that may be wrong on its own comes up.
std::vector<double> telling_coordinates(const Parameter& parameter) {
  constexpr size_t kMaxTried = 64;
  const size_t count = parameter.kind == ParameterKind::categorical
                           ? parameter.choices.size()
                           : 2;
  if (parameter.kind == ParameterKind::real ||
      parameter.kind == ParameterKind::integer) {
    return {0.0, 1.0};
  }
  std::vector<double> units;
  for (size_t i = 0; i < std::min(count, kMaxTried); ++i) {
    units.push_back((static_cast<double>(i) + 0.5) /
                    static_cast<double>(count));
  }
  return units;
}

// A point with coordinate `index` at `unit` that the space allows: the others
// in the middle if possible, else wherever chance finds one.
std::optional<Point> point_at(const SearchSpace& space, size_t index,
                              double unit, Rng& rng) {
  const std::string& name = space.parameters()[index].name;
  std::vector<double> units(space.dimensions(), 0.5);
  constexpr int kTries = 200;
  for (int i = 0; i < kTries; ++i) {
    units[index] = unit;
    Point point = space.decode(units);
    if (point.contains(name) && space.satisfies(point)) return point;
    for (double& other : units) other = rng.uniform();
  }
  return std::nullopt;
}

// The first thing that is wrong with the recipe at a point, or "".
std::string problem_at(const Document& document, const SearchSpace& space,
                       const Point& point) {
  try {
    read_point(document, space.parameters(), point);
    return "";
  } catch (const RecipeError& error) {
    return error.diagnostics().front().message;
  }
}

}  // namespace

void check_extremes(const Document& document, const SearchSpace& space,
                    Diagnostics& diagnostics) {
  Rng rng(mix_seed({hash_text("check_extremes")}));
  for (size_t i = 0; i < space.dimensions(); ++i) {
    const Parameter& parameter = space.parameters()[i];
    if (parameter.key.empty()) continue;
    for (const double unit : telling_coordinates(parameter)) {
      const auto point = point_at(space, i, unit, rng);
      if (!point) continue;
      const std::string problem = problem_at(document, space, *point);
      if (problem.empty()) continue;
      diagnostics.add(
          mark_of_path(document.tree, "space." + parameter.name),
          fmt::format("'{}' cannot be {}: {}", parameter.name,
                      to_string(point->at(parameter.name)), problem));
      break;
    }
  }
}

}  // namespace dtune
