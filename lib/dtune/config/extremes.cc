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

// Tries points of one space.
class Prober {
 public:
  Prober(const Document& document, const SearchSpace& space)
      : document_(document), space_(space) {}

  // Coordinates of a point that gives a sound recipe: the middle, else one that
  // chance finds. Reports and returns nothing if there is none.
  std::optional<std::vector<double>> find_sound(Diagnostics& diagnostics) {
    constexpr int kTries = 300;
    std::vector<double> units(space_.dimensions(), 0.5);
    std::string first;
    for (int i = 0; i < kTries; ++i) {
      const Point point = space_.decode(units);
      if (space_.satisfies(point)) {
        const std::string problem = problem_at(point);
        if (problem.empty()) return units;
        if (first.empty()) first = describe(point) + ": " + problem;
      }
      for (double& unit : units) unit = rng_.uniform();
    }
    if (!first.empty()) {
      diagnostics.add(mark_of_path(document_.tree, "space"),
                      fmt::format("no point of the space gives a recipe that "
                                  "can be trained; at {}",
                                  first));
    }
    return std::nullopt;
  }

  // What is wrong with coordinate `index` at `unit`, whatever the others are,
  // or "". Tries the sound point first; then others, as conditions and
  // constraints may ask for.
  std::string problem_of(size_t index, double unit,
                         const std::vector<double>& sound) {
    const Parameter& parameter = space_.parameters()[index];
    std::vector<double> units = sound;
    std::string problem;
    int tried = 0;
    constexpr int kDraws = 200;
    constexpr int kPoints = 5;
    for (int i = 0; i < kDraws && tried < kPoints; ++i) {
      units[index] = unit;
      const Point point = space_.decode(units);
      if (point.contains(parameter.name) && space_.satisfies(point)) {
        ++tried;
        const std::string here = problem_at(point);
        if (here.empty()) return "";
        if (problem.empty()) {
          problem = fmt::format("'{}' cannot be {}: {}", parameter.name,
                                to_string(point.at(parameter.name)), here);
        }
        if (i == 0) return problem;  // all others are sound
      }
      for (double& other : units) other = rng_.uniform();
    }
    return problem;
  }

 private:
  // The first thing that is wrong with the recipe at a point, or "".
  std::string problem_at(const Point& point) const {
    try {
      read_point(document_, space_, point);
      return "";
    } catch (const RecipeError& error) {
      return error.diagnostics().front().message;
    }
  }

  const Document& document_;
  const SearchSpace& space_;
  Rng rng_{mix_seed({hash_text("check_extremes")})};
};

}  // namespace

void check_extremes(const Document& document, const SearchSpace& space,
                    Diagnostics& diagnostics) {
  Prober prober(document, space);
  const auto sound = prober.find_sound(diagnostics);
  if (!sound) return;
  for (size_t i = 0; i < space.dimensions(); ++i) {
    const Parameter& parameter = space.parameters()[i];
    if (parameter.key.empty()) continue;
    for (const double unit : telling_coordinates(parameter)) {
      const std::string problem = prober.problem_of(i, unit, *sound);
      if (problem.empty()) continue;
      diagnostics.add(mark_of_path(document.tree, "space." + parameter.name),
                      problem);
      break;
    }
  }
}

}  // namespace dtune
