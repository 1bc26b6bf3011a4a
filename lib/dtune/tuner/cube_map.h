// Where the points of a recipe's space lie in the recorded cube.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtune/curves/cube.h"
#include "dtune/study/recipe.h"

namespace dtune {

// Which coordinate of the cube a parameter is, by the key that it sets or by
// its `role:`; none: no coordinate.
ParameterRole cube_role(const Parameter& parameter);

// What a recipe fixes beside the cube, as far as it says so.
CubeContext context_of(const Recipe& recipe);

// A choice of numbers that rise or fall, or that the recipe says is `ordered`:
// places on an axis rather than words.
bool is_ordered_choice(const Parameter& parameter);

// Between the study's unit cube and the recorded cube, whose coordinates are
// those of SGD (curves/cube.h): of numbers with and without a quantum and of
// choices of numbers, by the optimizer of the recipe or of the point.
// Immutable; thread-safe.
class CubeMap {
 public:
  explicit CubeMap(const Recipe& recipe);

  // What the space does not tune is as the recipe fixes it.
  CubePoint cube_point(std::span<const double> unit) const;
  // `unit` with the cube's coordinates in place, at the ends of the recipe's
  // ranges where the point is outside of them.
  std::vector<double> unit(const CubePoint& in_cube,
                           std::vector<double> unit) const;

 private:
  struct Axis {
    size_t index = 0;
    double CubePoint::*member = nullptr;
    bool logarithm = false;  // the cube has log10 of the value
    double low = 0;
    double high = 1;
    bool log = false;  // the space is uniform in the logarithm
    // Of a parameter that has no others: the values of its cells, in units of
    // the cube, and the cells' middles.
    std::vector<double> values;
    std::vector<double> middles;
  };
  static double on_cube(const Axis& axis, double value);
  std::string optimizer_at(std::span<const double> unit) const;

  std::vector<Axis> axes_;
  CubePoint fixed_;
  std::string optimizer_;
  std::optional<Parameter> tuned_optimizer_;
  size_t optimizer_index_ = 0;
};

}  // namespace dtune
