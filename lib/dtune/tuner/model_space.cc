#include "dtune/tuner/model_space.h"

#include <algorithm>

#include "dtune/space/axis.h"

namespace dtune {
namespace {

bool is_category(const Parameter& parameter) {
  return (parameter.kind == ParameterKind::categorical && !parameter.ordered) ||
         parameter.kind == ParameterKind::boolean;
}

// Middles of the cells beside that of `unit`; of a category, of all others
// (of a long list, of some evenly spread).
std::vector<double> other_values(const Parameter& parameter, double unit) {
  constexpr uint64_t kMost = 32;
  std::vector<double> values;
  const Cell cell = cell_around(parameter, unit);
  if (!is_category(parameter)) {
    const double middle = (cell.low + cell.high) / 2;
    if (cell.low > 0) values.push_back(std::max(0.0, 2 * cell.low - middle));
    if (cell.high < 1) values.push_back(std::min(1.0, 2 * cell.high - middle));
    return values;
  }
  const uint64_t count = *value_count(parameter);
  const uint64_t shown = std::min(count, kMost);
  for (uint64_t i = 0; i < shown; ++i) {
    const double middle = cell_middle(parameter, i * count / shown);
    if (middle < cell.low || middle > cell.high) values.push_back(middle);
  }
  return values;
}

}  // namespace

ModelSpace::ModelSpace(const SearchSpace& space) : space_(space) {
  constexpr uint64_t kCoarse = 16;
  for (const Parameter& parameter : space.parameters()) {
    const auto count = value_count(parameter);
    categories_.push_back(is_category(parameter));
    smooth_.push_back(!categories_.back() && (!count || *count > kCoarse));
  }
}

Place ModelSpace::place(Point point) const {
  Place place;
  place.unit = space_.encode(point);
  place.coordinates = place.unit;
  for (size_t i = 0; i < dimensions(); ++i) {
    if (categories_[i] && !point.contains(space_.parameters()[i].name)) {
      place.coordinates[i] = -1;
    }
  }
  place.point = std::move(point);
  return place;
}

std::optional<Place> ModelSpace::snap(std::span<const double> unit) const {
  Point point = space_.decode(unit);
  if (!space_.satisfies(point)) return std::nullopt;
  return place(std::move(point));
}

std::vector<Place> ModelSpace::neighbours(const Place& from) const {
  std::vector<Place> places;
  for (size_t i = 0; i < dimensions(); ++i) {
    const Parameter& parameter = space_.parameters()[i];
    if (smooth_[i] || !from.point.contains(parameter.name)) continue;
    std::vector<double> unit = from.unit;
    for (const double value : other_values(parameter, from.unit[i])) {
      unit[i] = value;
      if (auto place = snap(unit)) places.push_back(std::move(*place));
    }
  }
  return places;
}

}  // namespace dtune
