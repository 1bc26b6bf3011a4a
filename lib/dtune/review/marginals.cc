#include "dtune/review/marginals.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace dtune {
namespace {

double volume(const ForestBox& box) {
  double product = 1;
  for (size_t i = 0; i + 1 < box.low.size(); ++i) {
    product *= box.high[i] - box.low[i];
  }
  return product;
}

double width_of(const ForestBox& box, size_t axis) {
  return box.high[axis] - box.low[axis];
}

// Cells whose middles a box holds.
struct CellRange {
  size_t begin = 0;
  size_t end = 0;
};

CellRange cells_in(const ForestBox& box, size_t axis, size_t places) {
  const auto first_from = [&](double edge) {
    const double at = std::ceil(edge * double(places) - 0.5);
    return static_cast<size_t>(std::clamp(at, 0.0, double(places)));
  };
  return {first_from(box.low[axis]), first_from(box.high[axis])};
}

}  // namespace

double Effect::mean() const {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    sum += (breaks[i + 1] - breaks[i]) * values[i];
  }
  return sum;
}

double Effect::variance() const {
  const double middle = mean();
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double off = values[i] - middle;
    sum += (breaks[i + 1] - breaks[i]) * off * off;
  }
  return sum;
}

double Effect::at(double u) const {
  const auto after = std::upper_bound(breaks.begin(), breaks.end(), u);
  const auto place = static_cast<size_t>(after - breaks.begin());
  return values[std::clamp<size_t>(place, 1, values.size()) - 1];
}

ForestTree end_of_last(const ForestTree& tree) {
  ForestTree slice;
  for (const ForestBox& box : tree) {
    if (box.high.back() >= 1) slice.push_back(box);
  }
  return slice;
}

double total_variance(const ForestTree& slice) {
  double sum = 0, squares = 0;
  for (const ForestBox& box : slice) {
    sum += volume(box) * box.mean;
    squares += volume(box) * box.mean * box.mean;
  }
  return std::max(0.0, squares - sum * sum);
}

// By sweeping over the boxes' edges.
Effect main_effect(const ForestTree& slice, size_t axis) {
  Effect effect;
  std::set<double> edges{0, 1};
  for (const ForestBox& box : slice) {
    edges.insert(box.low[axis]);
    edges.insert(box.high[axis]);
  }
  effect.breaks.assign(edges.begin(), edges.end());
  std::vector<double> change(effect.breaks.size(), 0);
  const auto place = [&](double edge) {
    return static_cast<size_t>(
        std::lower_bound(effect.breaks.begin(), effect.breaks.end(), edge) -
        effect.breaks.begin());
  };
  for (const ForestBox& box : slice) {
    const double width = width_of(box, axis);
    if (width <= 0) continue;
    const double share = box.mean * volume(box) / width;
    change[place(box.low[axis])] += share;
    change[place(box.high[axis])] -= share;
  }
  double sum = 0;
  for (size_t i = 0; i + 1 < effect.breaks.size(); ++i) {
    sum += change[i];
    effect.values.push_back(sum);
  }
  return effect;
}

std::vector<double> pair_effect(const ForestTree& slice, size_t first,
                                size_t second, size_t places) {
  std::vector<double> cells(places * places, 0);
  for (const ForestBox& box : slice) {
    const double area = width_of(box, first) * width_of(box, second);
    if (area <= 0) continue;
    const double share = box.mean * volume(box) / area;
    const CellRange rows = cells_in(box, first, places);
    const CellRange columns = cells_in(box, second, places);
    for (size_t row = rows.begin; row < rows.end; ++row) {
      for (size_t column = columns.begin; column < columns.end; ++column) {
        cells[row * places + column] += share;
      }
    }
  }
  return cells;
}

}  // namespace dtune
