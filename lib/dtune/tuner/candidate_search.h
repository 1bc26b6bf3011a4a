// Where an acquisition function is looked for its best point.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "dtune/study/study.h"

namespace dtune {

// Scores of points of the unit cube; larger is better.
using PointScore =
    std::function<std::vector<double>(const std::vector<std::vector<double>>&)>;

struct ScoredPoint {
  std::vector<double> unit;
  Point point;
  double score = 0;
};

// The best point that satisfies the constraints and is not taken: candidates
// drawn uniformly, on a coarse grid (up to three dimensions) and around the
// best trials, then rounds of ever closer neighbours of the best. `extra`
// points are candidates as well. Points are snapped to the space's values.
// Empty where no free point was found. Depends on its arguments alone.
std::optional<ScoredPoint> search_candidates(
    const Study& study, const PointScore& score, uint64_t seed,
    std::span<const std::vector<double>> extra = {});

}  // namespace dtune
