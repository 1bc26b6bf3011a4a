// Where in a search space is an acquisition largest?
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "dtune/tuner/candidates.h"
#include "dtune/tuner/model_space.h"

namespace dtune {

// Value at the coordinates of ModelSpace (larger is better, finite); fills
// `slope` with the derivatives if it is not null.
using Acquisition = std::function<double(std::span<const double> coordinates,
                                         std::vector<double>* slope)>;

// The free point of the space with the largest acquisition found: 512 Sobol
// points and points around `centres` (good ones first; at most 8 are used) are
// compared, the best few refined by gradients in smooth coordinates and by
// trying neighbours in the others. Deterministic given its arguments. Empty
// where no point that was looked at is free and satisfies the constraints.
std::optional<Place> find_best_point(const TakenPoints& taken,
                                     const ModelSpace& space,
                                     const Acquisition& acquisition,
                                     const std::vector<Place>& centres,
                                     uint64_t seed);

}  // namespace dtune
