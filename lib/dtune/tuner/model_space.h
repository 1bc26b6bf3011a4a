// A search space as models see it: every parameter a coordinate in [0, 1],
// numbers compared by distance, words and booleans by equality alone.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "dtune/space/search_space.h"

namespace dtune {

// A point with its two descriptions.
struct Place {
  Point point;
  std::vector<double> unit;         // encode(point)
  std::vector<double> coordinates;  // of the models
};

// Keeps a reference to the space. Immutable; thread-safe.
class ModelSpace {
 public:
  explicit ModelSpace(const SearchSpace& space);

  const SearchSpace& space() const { return space_; }
  size_t dimensions() const { return space_.dimensions(); }
  // Per coordinate: a word or boolean.
  const std::vector<bool>& categories() const { return categories_; }
  // Per coordinate: has so many values that it may be moved by its gradient.
  const std::vector<bool>& smooth() const { return smooth_; }

  // An inactive parameter is at 1/2 as in encode(); an inactive word at -1,
  // unlike every value.
  Place place(Point point) const;
  // The nearest point of the space; empty where it breaks a constraint.
  std::optional<Place> snap(std::span<const double> unit) const;
  // Points that differ from `from` in one parameter that is not smooth: every
  // other word, the numbers next to it. Those that break constraints are left
  // out.
  std::vector<Place> neighbours(const Place& from) const;

 private:
  const SearchSpace& space_;
  std::vector<bool> categories_;
  std::vector<bool> smooth_;
};

}  // namespace dtune
